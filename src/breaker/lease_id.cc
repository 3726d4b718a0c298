#include "breaker/lease_id.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/hex.h"
#include "base/random.h"

namespace weir::breaker {
namespace {

constexpr std::size_t kLeast = 16;
constexpr std::size_t kMost = 64;

}  // namespace

bool valid_lease_id(std::string_view id) noexcept {
  return id.size() >= kLeast && id.size() <= kMost && std::all_of(id.begin(), id.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_';
         });
}

std::string unguessable_lease_id() {
  // From the system, at once: a std::random_device may ask the processor, which takes its time.
  std::array<std::uint64_t, 2> bits{};
  if (getentropy(bits.data(), sizeof(bits)) != 0) bits = {random_number(), random_number()};
  return hex(bits[0]) + hex(bits[1]);
}

}  // namespace weir::breaker
