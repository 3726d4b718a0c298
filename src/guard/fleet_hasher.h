#pragma once

#include <algorithm>
#include <string_view>

#include "base/counter_hasher.h"
#include "base/key_digest.h"

namespace weir::guard {

// In a fleet every worker must digest a counter alike, of whatever version it is: what a key's
// place and its turn in recovery are drawn from.
inline CounterHasher fleet_hasher(std::string_view prefix) {
  const ValueDigester::Digest digest = ValueDigester::from_text(prefix)("key hasher");
  KeyHasher::Secret secret{};
  std::copy(digest.begin(), digest.end(), secret.begin());
  return CounterHasher::of_fleet(secret);
}

}  // namespace weir::guard
