#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "breaker/probe_breaker.h"
#include "guard/shard_counters.h"
#include "guard/shard_driver.h"
#include "guard/shared_store.h"
#include "render/metrics.h"
#include "weir/observer.h"

namespace weir::guard {

// What asking the second store came to.
//
// Threads:     any.
class FallbackCounters {
 public:
  void count(bool was_decided) noexcept {
    (was_decided ? decided_ : undecided_).fetch_add(1, std::memory_order_relaxed);
  }
  void write(breaker::ProbeState state, std::optional<Nanos> away_for,
             render::Exposition& out) const {
    using Type = render::Exposition::Type;
    out.family("weir_fallback_asks_total", Type::counter,
               "Asks that were put to the fallback store, by whether it decided them.");
    out.sample({{"result", "decided"}}, decided_.load(std::memory_order_relaxed));
    out.sample({{"result", "undecided"}}, undecided_.load(std::memory_order_relaxed));
    out.family("weir_fallback_breaker_state", Type::gauge,
               "Whether the fallback store is asked: 0 closed, 1 recovering, 2 open.");
    out.sample({}, number_of(state));
    out.family("weir_fallback_away_seconds", Type::gauge,
               "For how long the fallback store has been away, also where nobody asked it; 0: it "
               "is there.");
    out.sample({}, away_for.value_or(Nanos(0)));
  }

 private:
  std::atomic<std::uint64_t> decided_{0};
  std::atomic<std::uint64_t> undecided_{0};
};

// Whether it could be asked now.
inline SharedStore::Fallback fallback_now(const ShardDriver& driver) {
  const ShardDriver::Connection connection = driver.connection();
  const bool answers = connection.up && !driver.away_for();
  return {.answers = answers, .trouble = answers ? std::string() : connection.last_error};
}

// Whether it has answered, or something has come in its way.
inline bool heard_of(const ShardDriver& driver) {
  const ShardDriver::Connection connection = driver.connection();
  return connection.up || !connection.trouble.empty();
}

// What the fallback store is short of, among the events of the first, as the whole is short of it:
// whoever counts on it hears that it is gone before they need it.
class FallbackObserver final : public Observer {
 public:
  explicit FallbackObserver(Observer* of) : of_(of) {}

  void on_store_event(const StoreEvent& event) override {
    using Kind = StoreEvent::Kind;
    if (of_ == nullptr) return;
    if (event.kind == Kind::back) {
      of_->on_store_event({.kind = Kind::fallback_back, .away_for = event.away_for});
    } else if (event.kind == Kind::away) {
      of_->on_store_event(
          {.kind = Kind::fallback_away, .why = event.why.empty() ? "does not answer" : event.why});
    } else if (event.kind == Kind::fault) {
      const std::string why = "fallback store: " + std::string(event.why);
      of_->on_store_event({.kind = Kind::fault, .why = why});
    }
  }

 private:
  Observer* of_;
};

}  // namespace weir::guard
