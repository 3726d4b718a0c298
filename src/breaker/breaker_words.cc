#include "weir/breaker.h"

// The one place where a breaker's enumerations get their spelling; JSON, metrics and logs use it.

namespace weir {

std::string_view to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::ok:
      return "ok";
    case Outcome::failure:
      return "failure";
    case Outcome::slow:
      return "slow";
    case Outcome::ignored:
      return "ignored";
    case Outcome::cancelled:
      return "cancelled";
    case Outcome::local_reject:
      return "local_reject";
    case Outcome::expired:
      return "expired";
  }
  return "unknown";
}

std::string_view to_string(BreakerState state) {
  switch (state) {
    case BreakerState::closed:
      return "closed";
    case BreakerState::open:
      return "open";
    case BreakerState::half_open:
      return "half_open";
    case BreakerState::recovering:
      return "recovering";
  }
  return "unknown";
}

std::string_view to_string(BreakerMode mode) {
  switch (mode) {
    case BreakerMode::automatic:
      return "automatic";
    case BreakerMode::forced_open:
      return "forced_open";
    case BreakerMode::forced_closed:
      return "forced_closed";
    case BreakerMode::disabled:
      return "disabled";
    case BreakerMode::shadow:
      return "shadow";
  }
  return "unknown";
}

std::string_view to_string(RejectReason reason) {
  switch (reason) {
    case RejectReason::open:
      return "open";
    case RejectReason::probing:
      return "probing";
    case RejectReason::recovering:
      return "recovering";
    case RejectReason::forced_open:
      return "forced_open";
  }
  return "unknown";
}

std::string_view to_string(BreakerCause cause) {
  switch (cause) {
    case BreakerCause::consecutive_failures:
      return "consecutive_failures";
    case BreakerCause::failure_rate:
      return "failure_rate";
    case BreakerCause::slow_rate:
      return "slow_rate";
    case BreakerCause::directive:
      return "directive";
    case BreakerCause::wait_over:
      return "wait_over";
    case BreakerCause::probes_passed:
      return "probes_passed";
    case BreakerCause::probes_failed:
      return "probes_failed";
    case BreakerCause::no_verdict:
      return "no_verdict";
    case BreakerCause::ramp_failed:
      return "ramp_failed";
    case BreakerCause::ramp_done:
      return "ramp_done";
    case BreakerCause::operator_set:
      return "operator_set";
    case BreakerCause::mode_over:
      return "mode_over";
    case BreakerCause::fleet:
      return "fleet";
  }
  return "unknown";
}

std::string_view to_string(FleetTie tie) {
  switch (tie) {
    case FleetTie::none:
      return "none";
    case FleetTie::follows:
      return "follows";
    case FleetTie::alone:
      return "alone";
  }
  return "unknown";
}

}  // namespace weir
