#pragma once

#include <algorithm>
#include <cstdint>

#include "base/random.h"
#include "weir/clock.h"

namespace weir::breaker {

// `first`, doubled `times` times, at most `most`.
inline Nanos doubled(Nanos first, std::uint32_t times, Nanos most) noexcept {
  Nanos wait = first;
  for (std::uint32_t i = 0; i < times && wait < most; ++i) wait = wait > most / 2 ? most : wait * 2;
  return std::min(wait, most);
}

// Uniform in wait * (1 +- percent/100), in whole nanoseconds.
inline Nanos jittered(Nanos wait, std::uint32_t percent, std::uint64_t& random) noexcept {
  const Nanos spread = wait / 100 * percent;
  if (spread <= Nanos::zero()) return wait;
  const auto width = static_cast<std::uint64_t>(spread.count()) * 2 + 1;
  return wait + Nanos(static_cast<std::int64_t>(next_random(random) % width)) - spread;
}

}  // namespace weir::breaker
