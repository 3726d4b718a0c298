#include "base/counter_hasher.h"

namespace weir {

KeyDigest CounterHasher::operator()(std::string_view bytes) const noexcept {
  return fleet_ ? of_fleet_(bytes) : of_process_(bytes);
}

KeyDigest CounterHasher::operator()(std::uint64_t head, unsigned char byte,
                                    std::string_view rest) const noexcept {
  return fleet_ ? of_fleet_(head, byte, rest) : of_process_(head, byte, rest);
}

}  // namespace weir
