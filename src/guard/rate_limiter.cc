#include "guard/rate_limiter.h"

namespace weir::guard {

void RateLimitAnswer::clear() {
  decision = Decision();
  statuses.clear();
  metadata.clear();
  refuse_as_error = false;
}

}  // namespace weir::guard
