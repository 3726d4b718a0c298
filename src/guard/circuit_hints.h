#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "store/redis/redis_session.h"
#include "store/redis/topology/node_link.h"
#include "store/redis/wire.h"
#include "weir/clock.h"
#include "weir/result.h"

namespace weir::guard {

// Hears, on a connection of its own, of every change of a shared breaker, as the store publishes
// it.
//
// What it hears is a hint to look at once, and no more: one that is lost is found by the next look,
// nothing waits for this connection, and whatever becomes of it is nobody's trouble.
//
// Guarantees:  a server that sends more than kMost hints in kSpan is not listened to for kRest, so
//              that a flood costs the loop no more than that.
// Threads:     the loop's alone, but for listening().
class CircuitHints final : private store::redis::NodeLink::Listener {
 public:
  static constexpr std::size_t kMost = 1'000;
  static constexpr Nanos kSpan = std::chrono::seconds(1);
  static constexpr Nanos kRest = std::chrono::seconds(5);

  struct Options {
    std::string channel;
    std::function<Result<store::redis::Credentials>()> credentials;
    Nanos connect_timeout{std::chrono::milliseconds(200)};
    std::uint64_t random = 0;
  };

  CircuitHints(Options options, std::unique_ptr<store::redis::AimedWire> wire, Clock& clock,
               std::function<void(std::string_view)> hinted);

  // Listens to that server from now on, or to none. To be called again and again: nothing happens
  // where nothing changed, and a rest ends here.
  void tend(const std::optional<store::redis::Endpoint>& server);
  void stop() { tend(std::nullopt); }

  // Whether hints come, from any thread.
  bool listening() const noexcept { return listening_.load(std::memory_order_relaxed); }

 private:
  void on_reply(store::redis::NodeLink&, std::size_t, const store::redis::Reply&) override {}
  void on_message(store::redis::NodeLink& link, const store::redis::Reply& message) override;
  void on_round(store::redis::NodeLink&) override { listening_ = true; }
  void on_down(store::redis::NodeLink&) override { listening_ = false; }
  void silence();
  bool flooded();

  Clock& clock_;
  const std::function<void(std::string_view)> hinted_;  // what was published
  const std::unique_ptr<store::redis::AimedWire> wire_;
  std::atomic<bool> listening_{false};
  std::optional<store::redis::Endpoint> server_;  // that is listened to
  MonoTime rests_until_{};
  MonoTime span_end_{};
  std::size_t in_span_ = 0;
  store::redis::NodeLink link_;
};

}  // namespace weir::guard
