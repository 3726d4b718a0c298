#include "breaker/half_open.h"

#include <algorithm>

namespace weir::breaker {

void HalfOpen::fit(const BreakerConfig& config) {
  if (slots_.size() < config.probes_in_flight) slots_.resize(config.probes_in_flight);
}

void HalfOpen::begin(MonoTime now) noexcept {
  for (Probe& probe : slots_) probe.out = false;
  since_ = now;
  in_flight_ = successes_ = failures_ = 0;
}

std::optional<HalfOpen::Slot> HalfOpen::take(const BreakerConfig& config, MonoTime now) noexcept {
  if (in_flight_ >= config.probes_in_flight) return std::nullopt;
  if (in_flight_ + successes_ + failures_ >= config.probes) return std::nullopt;
  const auto free =
      std::find_if(slots_.begin(), slots_.end(), [](const Probe& p) { return !p.out; });
  if (free == slots_.end()) return std::nullopt;
  *free = {.deadline = now + config.probe_deadline, .number = ++number_, .out = true};
  ++in_flight_;
  return Slot{.index = static_cast<std::uint16_t>(free - slots_.begin()), .probe = number_};
}

bool HalfOpen::settle(Slot slot, Vote vote) noexcept {
  if (slot.index >= slots_.size()) return false;
  Probe& probe = slots_[slot.index];
  if (!probe.out || probe.number != slot.probe) return false;
  probe.out = false;
  --in_flight_;
  count(vote);
  return true;
}

std::uint32_t HalfOpen::expire(const BreakerConfig& config, MonoTime now) noexcept {
  std::uint32_t expired = 0;
  for (Probe& probe : slots_) {
    if (!probe.out || now < probe.deadline) continue;
    probe.out = false;
    --in_flight_;
    ++expired;
    count(config.expired_probe == ExpiredProbe::fails ? Vote::failure : Vote::none);
  }
  return expired;
}

HalfOpen::Decision HalfOpen::decide(const BreakerConfig& config) const noexcept {
  if (successes_ >= config.probe_successes) return Decision::passed;
  if (failures_ > config.probes - config.probe_successes) return Decision::failed;
  return Decision::none;
}

std::optional<MonoTime> HalfOpen::next_deadline() const noexcept {
  std::optional<MonoTime> next;
  for (const Probe& probe : slots_)
    if (probe.out && (!next || probe.deadline < *next)) next = probe.deadline;
  return next;
}

void HalfOpen::count(Vote vote) noexcept {
  if (vote == Vote::success) ++successes_;
  if (vote == Vote::failure) ++failures_;
}

}  // namespace weir::breaker
