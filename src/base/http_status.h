#pragma once

#include "weir/decision.h"

namespace weir {

// The one map from answers to HTTP: 200 allowed; 429 limited; 503 refused; but 404 where the
// caller named a route that does not exist, 400 where the request itself was wrong, and 409 where
// it goes by another one's key.
constexpr int http_status(Verdict verdict, Reason reason) noexcept {
  if (verdict == Verdict::allowed) return 200;
  if (verdict == Verdict::limited) return 429;
  if (reason == Reason::unknown_route) return 404;
  if (reason == Reason::missing_value || reason == Reason::invalid_request) return 400;
  if (reason == Reason::key_reused) return 409;
  return 503;
}

}  // namespace weir
