#include "store/redis/name_lookup.h"

#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <mutex>
#include <system_error>
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
  const auto [at, is_new] = asked_.try_emplace(host);
  at->second.push_back({std::move(done), Work(io_.get_executor())});
  if (!is_new || (asked_.size() <= kMostNames && begin(host))) return;
  asio::post(io_, [this, host] { tell(host, {}); });
}

// False: there is no thread for it.
bool NameLookup::begin(const std::string& host) {
  try {
    std::thread([this, box = mailbox_, resolve = resolve_, host] {
      Addresses found;
      try {
        found = resolve(host);
      } catch (...) {
        found.clear();  // as a name that has no address
      }
      std::lock_guard lock(box->mutex);
      if (box->io == nullptr) return;
      asio::post(*box->io, [this, host, found = std::move(found)] { tell(host, found); });
    }).detach();
    return true;
  } catch (const std::system_error&) {
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
