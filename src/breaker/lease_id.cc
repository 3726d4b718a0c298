#include "breaker/lease_id.h"

#include <algorithm>
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
  return hex(random_number()) + hex(random_number());
}

}  // namespace weir::breaker
