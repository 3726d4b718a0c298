#include "weir/breaker.h"

#include <algorithm>

#include "breaker/breaker_core.h"

namespace weir {
namespace {

std::string fault_of(std::string_view field, std::string_view text, std::size_t most) {
  if (text.size() > most)
    return std::string(field) + " must be at most " + std::to_string(most) + " bytes and is " +
           std::to_string(text.size());
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
  });
  return plain ? std::string() : std::string(field) + " must not hold control characters";
}

std::string fault_of(const ModeOrder& order) {
  if (std::string fault = fault_of("by", order.by, ModeOrder::kMostBy); !fault.empty())
    return fault;
  if (std::string fault = fault_of("reason", order.reason, ModeOrder::kMostReason); !fault.empty())
    return fault;
  if (!order.lasts) return {};
  if (order.mode == BreakerMode::automatic) return "automatic has no end";
  if (*order.lasts <= Nanos::zero() || *order.lasts > ModeOrder::kLongest)
    return "a mode must last longer than nothing, and at most 366 days";
  return {};
}

}  // namespace

// A permit's gate is its breaker's core: Breaker::make() makes no other. It is let go of first: who
// hears of the change that a report makes may report again, or drop the permit.
void Permit::report(const CallVerdict& verdict) noexcept {
  detail::BreakerGate* const gate = std::exchange(gate_, nullptr);
  if (gate != nullptr) static_cast<BreakerCore*>(gate)->report(*this, verdict);
}

void Permit::report(const CallVerdict& verdict, MonoTime now) noexcept {
  detail::BreakerGate* const gate = std::exchange(gate_, nullptr);
  if (gate != nullptr) static_cast<BreakerCore*>(gate)->report(*this, verdict, now);
}

void Permit::release() noexcept {
  static_cast<BreakerCore*>(gate_)->release(*this);
}

Breaker::Breaker(std::shared_ptr<BreakerCore> core) noexcept
    : gate_(core.get()), core_(std::move(core)) {}

Result<Breaker> Breaker::make(std::string name, const BreakerConfig& config,
                              BreakerOptions options) {
  std::string faults;
  for (const ConfigFault& fault : check_breaker_config(config))
    faults += (faults.empty() ? "" : "\n") + ("breaker " + name + ": " + fault.text());
  if (!faults.empty()) return Error{ErrorCode::invalid_argument, std::move(faults)};
  return Breaker(std::make_shared<BreakerCore>(std::move(name), config, std::move(options)));
}

void Breaker::admit_async(std::function<void(Admission)> done, AdmitOptions options) {
  core_->admit_async(gate_->now(), options, std::move(done));
}

void Breaker::poll() {
  core_->poll(gate_->now());
}
void Breaker::poll(MonoTime now) {
  core_->poll(now);
}
void Breaker::set_mode(BreakerMode mode) {
  core_->set_mode({.mode = mode, .by = {}, .reason = {}});
}
Result<void> Breaker::set_mode(ModeOrder order) {
  if (std::string fault = fault_of(order); !fault.empty())
    return Error{ErrorCode::invalid_argument, std::move(fault)};
  core_->set_mode(std::move(order));
  return {};
}
void Breaker::trip(std::optional<Nanos> wait) {
  core_->trip(wait);
}
void Breaker::close() {
  core_->close();
}
Result<void> Breaker::configure(const BreakerConfig& config) {
  return core_->configure(config);
}
std::string_view Breaker::name() const noexcept {
  return core_->name();
}
BreakerState Breaker::state() const noexcept {
  return core_->state();
}
BreakerMode Breaker::mode() const noexcept {
  return core_->mode();
}
FleetTie Breaker::tie() const {
  return core_->tie();
}
BreakerConfig Breaker::config() const {
  return core_->config();
}
BreakerSnapshot Breaker::snapshot() const {
  return core_->snapshot(gate_->now());
}

}  // namespace weir
