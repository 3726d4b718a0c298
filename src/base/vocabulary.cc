#include "weir/decision.h"
#include "weir/limits.h"
#include "weir/observer.h"
#include "weir/on_expiry.h"

// The one place where the public enumerations get their spelling; JSON, headers, metrics, logs and
// messages use it.

namespace weir {

std::string_view to_string(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::gcra:
      return "gcra";
    case Algorithm::fixed_window:
      return "fixed_window";
    case Algorithm::sliding_window:
      return "sliding_window";
    case Algorithm::sliding_log:
      return "sliding_log";
  }
  return "unknown";
}

std::string_view to_string(Protects protects) {
  switch (protects) {
    case Protects::security:
      return "security";
    case Protects::side_effects:
      return "side_effects";
    case Protects::capacity:
      return "capacity";
    case Protects::revenue:
      return "revenue";
    case Protects::nothing:
      return "nothing";
  }
  return "unknown";
}

std::string_view to_string(FailurePolicy policy) {
  switch (policy) {
    case FailurePolicy::closed:
      return "closed";
    case FailurePolicy::bounded:
      return "bounded";
    case FailurePolicy::settle:
      return "settle";
    case FailurePolicy::open:
      return "open";
  }
  return "unknown";
}

FailurePolicy failure_policy_of(Protects protects) {
  switch (protects) {
    case Protects::security:
    case Protects::side_effects:
      return FailurePolicy::closed;
    case Protects::capacity:
      return FailurePolicy::bounded;
    case Protects::revenue:
      return FailurePolicy::settle;
    case Protects::nothing:
      return FailurePolicy::open;
  }
  return FailurePolicy::closed;
}

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::allowed:
      return "allowed";
    case Verdict::limited:
      return "limited";
    case Verdict::refused:
      return "refused";
  }
  return "unknown";
}

std::string_view to_string(Rung rung) {
  switch (rung) {
    case Rung::store:
      return "store";
    case Rung::known:
      return "known";
    case Rung::share:
      return "share";
    case Rung::policy:
      return "policy";
    case Rung::journal:
      return "journal";
    case Rung::fallback:
      return "fallback";
  }
  return "unknown";
}

std::string_view to_string(Reason reason) {
  switch (reason) {
    case Reason::within_limit:
      return "within_limit";
    case Reason::over_limit:
      return "over_limit";
    case Reason::cost_exceeds_burst:
      return "cost_exceeds_burst";
    case Reason::blocked:
      return "blocked";
    case Reason::no_limit:
      return "no_limit";
    case Reason::store_unavailable:
      return "store_unavailable";
    case Reason::over_share:
      return "over_share";
    case Reason::over_ceiling:
      return "over_ceiling";
    case Reason::unknown_route:
      return "unknown_route";
    case Reason::unmatched_request:
      return "unmatched_request";
    case Reason::missing_value:
      return "missing_value";
    case Reason::invalid_request:
      return "invalid_request";
    case Reason::keys_exhausted:
      return "keys_exhausted";
    case Reason::key_reused:
      return "key_reused";
  }
  return "unknown";
}

std::string_view to_string(OnExpiry on_expiry) {
  switch (on_expiry) {
    case OnExpiry::full:
      return "full";
    case OnExpiry::last_heartbeat:
      return "last_heartbeat";
    case OnExpiry::zero:
      return "zero";
  }
  return "unknown";
}

std::string_view to_string(StoreEvent::Kind kind) {
  switch (kind) {
    case StoreEvent::Kind::away_at_start:
      return "store_away_at_start";
    case StoreEvent::Kind::away:
      return "store_away";
    case StoreEvent::Kind::answers_again:
      return "store_answers_again";
    case StoreEvent::Kind::back:
      return "store_back";
    case StoreEvent::Kind::fault:
      return "store_fault";
    case StoreEvent::Kind::clock_set:
      return "store_clock_set";
    case StoreEvent::Kind::no_part:
      return "worker_has_no_part";
    case StoreEvent::Kind::part:
      return "worker_has_a_part";
    case StoreEvent::Kind::journal_fails:
      return "journal_fails";
    case StoreEvent::Kind::journal_works:
      return "journal_works";
    case StoreEvent::Kind::ledger_fails:
      return "ledger_fails";
    case StoreEvent::Kind::ledger_works:
      return "ledger_works";
    case StoreEvent::Kind::fallback_away:
      return "fallback_away";
    case StoreEvent::Kind::fallback_back:
      return "fallback_back";
  }
  return "unknown";
}

}  // namespace weir
