#pragma once

#include "render/log.h"
#include "weir/observer.h"

namespace weir::server {

// Writes a line when the shared store, the journal or the ledger goes and one when it comes back,
// whatever happens in between; and one for each change of a breaker.
class StoreLog final : public Observer {
 public:
  explicit StoreLog(render::Log& log) : log_(log) {}

  void on_store_event(const StoreEvent& event) override {
    using Kind = StoreEvent::Kind;
    const std::string_view name = to_string(event.kind);
    switch (event.kind) {
      case Kind::away_at_start:
      case Kind::away:
        // Where there is no connection the next attempt at one is what is waited for.
        if (event.next_probe == Nanos(0)) {
          log_.write(render::LogLevel::error, name, {{"why", event.why}});
        } else {
          log_.write(render::LogLevel::error, name,
                     {{"why", event.why}, {"next_probe", event.next_probe}});
        }
        return;
      case Kind::fault:
        log_.transition(render::LogLevel::warn, name, event.why);
        return;
      case Kind::clock_set:
        log_.write(render::LogLevel::warn, name, {{"moved", event.moved}, {"skew", event.skew}});
        return;
      case Kind::fallback_away:
        log_.write(render::LogLevel::error, name, {{"why", event.why}});
        return;
      case Kind::fallback_back:
        log_.write(render::LogLevel::info, name, {{"away_for", event.away_for}});
        return;
      case Kind::no_part:
      case Kind::journal_fails:
        log_.write(render::LogLevel::error, name, {{"why", event.why}});
        return;
      case Kind::part:
        log_.write(render::LogLevel::info, name,
                   {{"workers", static_cast<std::uint64_t>(event.workers)}});
        return;
      case Kind::ledger_fails:
        log_.write(render::LogLevel::warn, name, {{"why", event.why}});
        return;
      case Kind::answers_again:
      case Kind::journal_works:
      case Kind::ledger_works:
        log_.write(render::LogLevel::info, name);
        return;
      case Kind::back:
        log_.write(render::LogLevel::info, name,
                   {{"away_for", event.away_for},
                    {"decided_without", event.decided_without},
                    {"by_fallback", event.by_fallback},
                    {"owed_units", event.owed_units}});
        return;
    }
  }

  void on_breaker_event(const BreakerEvent& event) override {
    const bool opens = event.to == BreakerState::open;
    if (event.order) {
      // Whose word it was, and until when; what nobody said is empty.
      log_.write(opens ? render::LogLevel::error : render::LogLevel::info, "breaker_changed",
                 {{"breaker", event.breaker},
                  {"to", to_string(event.to)},
                  {"mode", to_string(event.mode)},
                  {"cause", to_string(event.cause)},
                  {"by", event.order->by},
                  {"reason", event.order->reason},
                  {"lasts", event.order->lasts.value_or(Nanos::zero())}});
      return;
    }
    log_.write(opens ? render::LogLevel::error : render::LogLevel::info, "breaker_changed",
               {{"breaker", event.breaker},
                {"to", to_string(event.to)},
                {"mode", to_string(event.mode)},
                {"cause", to_string(event.cause)},
                {"open_for", event.open_for}});
  }

 private:
  render::Log& log_;
};

}  // namespace weir::server
