#include "weir/concurrency.h"

#include "breaker/concurrency_core.h"

namespace weir {
namespace {

Result<void> checked(std::string_view name, const ConcurrencyConfig& config) {
  std::string faults;
  for (const ConfigFault& fault : check_concurrency_config(config))
    faults += (faults.empty() ? "concurrency " : "\nconcurrency ") + std::string(name) + ": " +
              fault.text();
  if (!faults.empty()) return Error{ErrorCode::invalid_argument, std::move(faults)};
  return {};
}

}  // namespace

std::string_view to_string(LeaseRefusal refusal) {
  switch (refusal) {
    case LeaseRefusal::none:
      return "none";
    case LeaseRefusal::full:
      return "full";
    case LeaseRefusal::never_fits:
      return "never_fits";
    case LeaseRefusal::queue_full:
      return "queue_full";
    case LeaseRefusal::timed_out:
      return "timed_out";
    case LeaseRefusal::gone:
      return "gone";
    case LeaseRefusal::held_otherwise:
      return "held_otherwise";
    case LeaseRefusal::invalid_id:
      return "invalid_id";
    case LeaseRefusal::too_many_keys:
      return "too_many_keys";
    case LeaseRefusal::store_away:
      return "store_away";
  }
  return "unknown";
}

// A slot's gate is its limit's core: Concurrency makes no other.
void Slot::hand_on() noexcept {
  static_cast<ConcurrencyCore*>(gate_)->hand_on();
}

Concurrency::Concurrency(std::shared_ptr<ConcurrencyCore> core) noexcept
    : gate_(core.get()), core_(std::move(core)) {}

Result<Concurrency> Concurrency::make(std::string name, const ConcurrencyConfig& config,
                                      Clock* clock) {
  if (const Result<void> sound = checked(name, config); !sound) return sound.error();
  return Concurrency(std::make_shared<ConcurrencyCore>(std::move(name), config,
                                                       clock != nullptr ? *clock : Clock::real()));
}

Slot Concurrency::acquire_slow(std::uint32_t weight) noexcept {
  const LeaseRefusal refusal = core_->take_slow(weight);
  return refusal == LeaseRefusal::none ? Slot(gate_, weight) : Slot(refusal);
}

Slot Concurrency::acquire(std::uint32_t weight, Nanos patience) {
  if (weight != 0 && gate_->take(weight)) return Slot(gate_, weight);
  const LeaseRefusal refusal = core_->wait(weight, patience);
  return refusal == LeaseRefusal::none ? Slot(gate_, weight) : Slot(refusal);
}

LeaseAnswer Concurrency::lease(const LeaseRequest& request) {
  return core_->lease(request);
}
LeaseAnswer Concurrency::renew(std::string_view id) {
  return core_->renew(id);
}
bool Concurrency::release(std::string_view id) {
  return core_->release(id);
}

Result<void> Concurrency::configure(const ConcurrencyConfig& config) {
  if (const Result<void> sound = checked(name(), config); !sound) return sound.error();
  core_->configure(config);
  return {};
}

ConcurrencyConfig Concurrency::config() const {
  return core_->config();
}
std::string_view Concurrency::name() const noexcept {
  return core_->name();
}
ConcurrencySnapshot Concurrency::snapshot() const {
  return core_->snapshot();
}

}  // namespace weir
