#include "store/redis/store_clock.h"

#include <algorithm>

namespace weir::store::redis {
namespace {

constexpr std::int64_t kTickNs = 1'000;  // TIME tells whole microseconds, rounded down

std::int64_t offset_ns(Instant store, MonoTime mono) {
  return store.time_since_epoch().count() - mono.time_since_epoch().count();
}

// How far two clocks may drift apart meanwhile.
std::int64_t drift_ns(MonoTime from, MonoTime to) {
  return std::max<std::int64_t>((to - from).count(), 0) / 5'000;
}

}  // namespace

bool StoreClock::observe(MonoTime sent, MonoTime received, Instant store) {
  const std::int64_t low = offset_ns(store, received);
  const std::int64_t high = offset_ns(store, sent) + kTickNs;
  if (!known_) {
    known_ = true;
    seen_ = received;
    low_ns_ = low;
    high_ns_ = high;
    return false;
  }
  const std::int64_t drift = drift_ns(seen_, received);
  seen_ = received;
  low_ns_ = std::max(low_ns_ - drift, low);
  high_ns_ = std::min(high_ns_ + drift, high);
  if (low_ns_ <= high_ns_) return false;
  low_ns_ = low;
  high_ns_ = high;
  return true;
}

Instant StoreClock::earliest(MonoTime at) const noexcept {
  return Instant{Nanos{at.time_since_epoch().count() + low_ns_ - drift_ns(seen_, at)}};
}

Instant StoreClock::latest(MonoTime at) const noexcept {
  return Instant{Nanos{at.time_since_epoch().count() + high_ns_ + drift_ns(seen_, at)}};
}

}  // namespace weir::store::redis
