#include "store/redis/name_lookup.h"

#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

#include <boost/asio/post.hpp>

namespace weir::store::redis {
namespace {

namespace asio = boost::asio;

asio::ip::address address_of(const sockaddr& from) {
  if (from.sa_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(from);
    return asio::ip::address_v4(ntohl(four.sin_addr.s_addr));
  }
  const auto& six = reinterpret_cast<const sockaddr_in6&>(from);
  asio::ip::address_v6::bytes_type bytes;
  std::copy_n(six.sin6_addr.s6_addr, bytes.size(), bytes.begin());
  return asio::ip::address_v6(bytes, six.sin6_scope_id);
}

NameLookup::Addresses by_the_system(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* all = nullptr;
  NameLookup::Addresses found;
  if (::getaddrinfo(host.c_str(), nullptr, &wanted, &all) != 0) return found;
  for (const addrinfo* one = all; one != nullptr; one = one->ai_next) {
    if (one->ai_family == AF_INET || one->ai_family == AF_INET6) {
      found.push_back(address_of(*one->ai_addr));
    }
  }
  ::freeaddrinfo(all);
  return found;
}

}  // namespace

struct NameLookup::Mailbox {
  std::mutex mutex;
  asio::io_context* io = nullptr;  // absent: nobody listens any more
};

NameLookup::NameLookup(asio::io_context& io, Resolve resolve)
    : asio::execution_context::service(io),
      io_(io),
      resolve_(resolve ? std::move(resolve) : Resolve(by_the_system)),
      mailbox_(std::make_shared<Mailbox>()) {
  mailbox_->io = &io;
}

NameLookup::~NameLookup() {
  shutdown();
}

void NameLookup::shutdown() {
  {
    std::lock_guard lock(mailbox_->mutex);
    mailbox_->io = nullptr;
  }
  asked_.clear();
}

void NameLookup::ask(const std::string& host, Done done) {
  Asked one{std::move(done), Work(io_.get_executor())};
  const auto at = asked_.find(host);
  if (at != asked_.end()) {
    at->second.push_back(std::move(one));
    return;
  }
  std::vector<Asked> first;
  first.push_back(std::move(one));
  if (asked_.size() >= kMostNames || !begin(host)) {
    asio::post(io_, [this, host] { tell(host, {}); });
  }
  // Last: a name that stands here will be told.
  asked_.emplace(host, std::move(first));
}

struct NameLookup::Answer {
  std::string host;
  Addresses found;
};

// False: there is no thread for it, or no memory.
bool NameLookup::begin(const std::string& host) {
  try {
    auto answer = std::make_shared<Answer>(Answer{host, {}});
    std::thread([whose = this, box = mailbox_, resolve = resolve_, answer = std::move(answer)] {
      try {
        answer->found = resolve(answer->host);
      } catch (...) {
        answer->found.clear();  // as a name that has no address
      }
      // Whoever asked waits: where there is no memory to say it, it is said later.
      while (!post(whose, *box, answer)) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }).detach();
    return true;
  } catch (...) {
    return false;
  }
}

bool NameLookup::post(NameLookup* whose, Mailbox& box,
                      const std::shared_ptr<const Answer>& answer) {
  std::lock_guard lock(box.mutex);
  if (box.io == nullptr) return true;
  try {
    asio::post(*box.io, [whose, answer] { whose->tell(answer->host, answer->found); });
    return true;
  } catch (...) {
    return false;
  }
}

void NameLookup::tell(const std::string& host, const Addresses& found) {
  const auto at = asked_.find(host);
  if (at == asked_.end()) return;
  // Whoever hears of it may ask again.
  const std::vector<Asked> asked = std::move(at->second);
  asked_.erase(at);
  for (const Asked& one : asked) one.done(found);
}

}  // namespace weir::store::redis
