#pragma once

#include <chrono>
#include <string>

#include "base/key_digest.h"
#include "weir/clock.h"

namespace weir::guard {

// An idempotency key is known for so long after the request that brought it; the ledger knows it
// longer.
inline constexpr Nanos kIdempotencyMemory = std::chrono::hours(24);

// What an idempotency key names: the key among those of its tenant and route, the request that it
// was used for, and beside which counter its marks stand (see policy::KeyWriter::place_of()).
struct RequestName {
  ValueDigester::Digest key{};
  ValueDigester::Digest asked{};
  std::string place = {};
};

}  // namespace weir::guard
