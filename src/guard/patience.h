#pragma once

#include <algorithm>
#include <optional>

#include "weir/clock.h"

namespace weir::guard {

// How long an ask may take: the store's deadline, or what the caller gives, less what is kept back
// to get the answer to it in time (a tenth, at most two milliseconds).
inline Nanos patience_of(std::optional<Nanos> caller, Nanos deadline) noexcept {
  constexpr Nanos kMostMargin = std::chrono::milliseconds(2);
  if (!caller) return deadline;
  const Nanos asked = std::max(Nanos::zero(), *caller);
  return std::min(deadline, asked - std::min(kMostMargin, asked / 10));
}

}  // namespace weir::guard
