#include "guard/rate_limiter.h"

#include <algorithm>
#include <chrono>

namespace weir::guard {

std::optional<std::int64_t> DescriptorStatus::reset_seconds() const noexcept {
  if (!until_reset) return std::nullopt;
  return std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(*until_reset).count());
}

void RateLimitAnswer::clear() {
  decision = Decision();
  statuses.clear();
  metadata.clear();
  refuse_as_error = false;
}

}  // namespace weir::guard
