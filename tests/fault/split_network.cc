#include "split_network.h"

#include <array>
#include <future>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

// Boost 1.74 needs <utility> before its headers.
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

namespace weir::fault {

namespace asio = boost::asio;
using asio::ip::tcp;
using Failure = boost::system::error_code;

class SplitNetwork::Impl {
 public:
  Impl() : thread_([this] { io_.run(); }) {}
  ~Impl() {
    io_.stop();
    thread_.join();
  }

  std::uint16_t door_to(std::uint16_t port, std::size_t node) {
    auto door = std::make_shared<Door>(io_, port, node);
    const std::uint16_t at = door->acceptor.local_endpoint().port();
    asio::post(io_, [this, door] { let_in(door); });
    return at;
  }
  void part(std::optional<std::size_t> lone, Callers callers) {
    std::promise<void> done;
    asio::post(io_, [&] {
      lone_ = lone;
      callers_ = callers;
      for (const auto& weak : ways_) {
        const auto way = weak.lock();
        if (!way) continue;
        if (crosses(*way)) way->silent = true;
        if (way->silent && !lone) way->close();
      }
      std::erase_if(ways_, [](const auto& way) { return way.expired(); });
      done.set_value();
    });
    done.get_future().wait();
  }

 private:
  struct Door {
    Door(asio::io_context& io, std::uint16_t port, std::size_t of)
        : acceptor(io, {asio::ip::address_v4::loopback(), 0}), target(port), node(of) {}
    tcp::acceptor acceptor;
    std::uint16_t target;
    std::size_t node;
  };
  // Between who came and the node, both ways.
  struct Way {
    Way(tcp::socket who_came, asio::io_context& io) : from(std::move(who_came)), to(io) {}
    void close() {
      Failure ignored;
      from.close(ignored);
      to.close(ignored);
    }
    tcp::socket from;
    tcp::socket to;
    std::optional<std::size_t> caller;  // absent: no node
    std::size_t node = 0;
    bool silent = false;
    std::array<std::array<char, 16'384>, 2> bytes;
  };
  using WayPtr = std::shared_ptr<Way>;

  bool crosses(const Way& way) const {
    if (!lone_) return false;
    if (!way.caller) return callers_ == Callers::with_the_lone_one && way.node != *lone_;
    return (*way.caller == *lone_) != (way.node == *lone_);
  }
  static std::optional<std::size_t> node_at(const asio::ip::address& address) {
    const std::size_t last = address.to_v4().to_bytes()[3];
    if (last < kFirstAddress) return std::nullopt;
    return last - kFirstAddress;
  }

  void let_in(const std::shared_ptr<Door>& door) {
    door->acceptor.async_accept([this, door](const Failure& failure, tcp::socket who) {
      if (!failure) lead(std::make_shared<Way>(std::move(who), io_), *door);
      let_in(door);
    });
  }
  void lead(const WayPtr& way, const Door& door) {
    Failure gone;
    const tcp::endpoint who = way->from.remote_endpoint(gone);
    if (gone) return;
    way->caller = node_at(who.address());
    way->node = door.node;
    way->silent = crosses(*way);
    ways_.push_back(way);
    way->to.async_connect({asio::ip::address_v4::loopback(), door.target},
                          [way](const Failure& failure) {
                            if (failure) return way->close();
                            pass(way, 0);
                            pass(way, 1);
                          });
  }
  static void pass(const WayPtr& way, std::size_t which) {
    tcp::socket& in = which == 0 ? way->from : way->to;
    in.async_read_some(asio::buffer(way->bytes[which]),
                       [way, which](const Failure& failure, std::size_t size) {
                         if (failure) return way->close();
                         if (way->silent) return pass(way, which);
                         tcp::socket& out = which == 0 ? way->to : way->from;
                         asio::async_write(out, asio::buffer(way->bytes[which], size),
                                           [way, which](const Failure& lost, std::size_t) {
                                             if (lost) return way->close();
                                             pass(way, which);
                                           });
                       });
  }

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  std::optional<std::size_t> lone_;
  Callers callers_ = Callers::with_all;
  std::vector<std::weak_ptr<Way>> ways_;
  std::thread thread_;
};

SplitNetwork::SplitNetwork() : impl_(std::make_unique<Impl>()) {}
SplitNetwork::~SplitNetwork() = default;

std::uint16_t SplitNetwork::door_to(std::uint16_t port, std::size_t node) {
  return impl_->door_to(port, node);
}
void SplitNetwork::part(std::size_t lone, Callers callers) {
  impl_->part(lone, callers);
}
void SplitNetwork::heal() {
  impl_->part(std::nullopt, Callers::with_all);
}

}  // namespace weir::fault
