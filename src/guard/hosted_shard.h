#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "guard/shard_driver.h"
#include "store/redis/wire.h"
#include "weir/clock.h"
#include "weir/observer.h"

namespace weir::guard {

// A shard's driver on an event loop: its socket and its timer. Several share one loop.
//
// Threads:     as ShardDriver; the loop's thread is the driver's.
class HostedShard final : private ShardDriver::Host {
 public:
  // What the owner does for it. All may be empty.
  struct Ports {
    std::function<void()> connection_changed;
    std::function<void(std::string text, std::uint64_t epoch)> write_view;
    // See ShardDriver::Host.
    std::function<bool(SharedAsk&)> ask_another;
    std::function<bool(SharedAsk&, std::string_view error)> follow;
    std::function<bool(SharedAsk&, bool asking)> wait_for_server;
    std::function<void()> idle;
    std::function<bool()> awaited;
    std::function<ShardDriver*(std::string_view error, bool& asking)> give_back_to;
  };

  HostedShard(boost::asio::io_context& io, std::unique_ptr<store::redis::Wire> wire,
              ShardDriver::Options options, store::redis::KeySpace keys, Clock& clock,
              Observer* observer, Ports ports)
      : ports_(std::move(ports)),
        timer_(io),
        wire_(std::move(wire)),
        driver_(std::move(options), std::move(keys), *wire_, clock, observer, *this) {}

  ShardDriver& driver() noexcept { return driver_; }
  const ShardDriver& driver() const noexcept { return driver_; }

  // See Wire.
  std::optional<store::redis::Endpoint> where() const { return wire_->where(); }

  // From the loop: answers everything that waits, closes the connection, and wakes no more.
  void stop() {
    stopped_ = true;
    driver_.stop();
    timer_.cancel();
  }

 private:
  void wake_at(MonoTime when) override {
    timer_.expires_at(std::chrono::time_point_cast<std::chrono::steady_clock::duration>(when));
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error && !stopped_) driver_.on_wake();
    });
  }
  void connection_changed() override {
    if (ports_.connection_changed) ports_.connection_changed();
  }
  void write_view(std::string text, std::uint64_t epoch) override {
    if (ports_.write_view) ports_.write_view(std::move(text), epoch);
  }
  bool ask_another(SharedAsk& ask) noexcept override {
    return ports_.ask_another && ports_.ask_another(ask);
  }
  bool follow(SharedAsk& ask, std::string_view error) noexcept override {
    return ports_.follow && ports_.follow(ask, error);
  }
  bool wait_for_server(SharedAsk& ask, bool asking) noexcept override {
    return ports_.wait_for_server && ports_.wait_for_server(ask, asking);
  }
  void idle() noexcept override {
    if (ports_.idle) ports_.idle();
  }
  bool awaited() noexcept override { return ports_.awaited && ports_.awaited(); }
  ShardDriver* give_back_to(std::string_view error, bool& asking) noexcept override {
    return ports_.give_back_to ? ports_.give_back_to(error, asking) : nullptr;
  }

  const Ports ports_;
  bool stopped_ = false;  // the loop's
  boost::asio::steady_timer timer_;
  std::unique_ptr<store::redis::Wire> wire_;
  ShardDriver driver_;
};

}  // namespace weir::guard
