#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "guard/store_line.h"
#include "store/redis/redis_client.h"
#include "testing/sim/sim_loop.h"
#include "testing/sim/sim_process.h"
#include "testing/sim/sim_redis.h"

namespace weir::testing {

// One process's line to a simulated server, for what stands there beside the limits: the client
// that ships, on a link of its own, with the loop for its thread. The process may be stopped.
class SimLine final : public guard::StoreLine, private store::redis::ClientEvents {
 public:
  // Of what talks over it: `wake` when wake_at() said so, `changed` after a connection came or
  // went.
  struct Desk {
    std::function<void()> wake;
    std::function<void()> changed;
  };

  static store::redis::KeySpace key_space() {
    return store::redis::KeySpace::make("weir", "weir").value();
  }

  SimLine(SimLoop& loop, SimRedis& server, std::uint64_t seed)
      : link(server.make_link()),
        process(loop),
        clock_(loop),
        wire_(loop, server, link, &process),
        client_({.session = {.hang_after = std::chrono::milliseconds(200), .random_seed = seed},
                 .backoff = std::chrono::milliseconds(50),
                 .max_backoff = std::chrono::milliseconds(500),
                 .credentials = {},
                 .random_seed = seed},
                key_space(), wire_, clock_, *this) {}

  void start(Desk desk) {
    desk_ = std::move(desk);
    client_.start();
  }
  // Nothing of it happens any more.
  void stop() {
    alive_.reset();
    client_.stop();
  }

  Clock& clock() noexcept { return clock_; }
  void wake_at(MonoTime when) {
    process.at(when, [this, alive = std::weak_ptr(alive_), number = ++wake_] {
      if (!alive.expired() && number == wake_) desk_.wake();
    });
  }

  bool up(std::uint16_t) const override { return client_.ready(); }
  bool answering(std::uint16_t) const noexcept override { return client_.ready(); }
  std::optional<store::redis::Endpoint> where(std::uint16_t) const override {
    if (!client_.ready()) return std::nullopt;
    return store::redis::Endpoint{.host = "simulated", .unix_path = {}, .tls = {}};
  }
  void call(std::uint16_t, store::redis::StoreCall call, Nanos within,
            store::redis::CallHandler handler) override {
    client_.call(std::move(call), within, std::move(handler));
  }
  void post(std::function<void()> what) override {
    process.after(Nanos{0}, [alive = std::weak_ptr(alive_), what = std::move(what)] {
      if (!alive.expired()) what();
    });
  }
  bool in_loop() const noexcept override { return true; }

  SimLink& link;  // outlives this: what is on its way goes on
  SimProcess process;

 private:
  void changed() {
    post([this] { desk_.changed(); });
  }
  void on_vote(const store::redis::Vote&) override {}
  void on_late(const store::redis::LateReply&) override {}
  void on_unknown(std::uint64_t) override {}
  void on_report(const store::redis::StoreReport&) override {}
  void on_connected() override { changed(); }
  void on_disconnected(const store::redis::ErrorRow&, std::string_view) override { changed(); }

  SimClock clock_;
  SimWire wire_;
  Desk desk_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::uint64_t wake_ = 0;
  store::redis::RedisClient client_;
};

}  // namespace weir::testing
