#include "base/counter_hasher.h"

namespace weir {

KeyDigest CounterHasher::operator()(std::string_view bytes) const noexcept {
  return fleet_ ? of_fleet_(bytes) : of_process_(bytes);
}

}  // namespace weir
