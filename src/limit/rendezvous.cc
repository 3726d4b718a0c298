#include "limit/rendezvous.h"

#include "base/random.h"

namespace weir::limit {

std::uint64_t rendezvous_score(std::uint64_t member, const KeyHash& key) noexcept {
  return spread_bits(spread_bits(spread_bits(member) ^ key.hi) ^ key.lo);
}

std::size_t rendezvous_rank(std::span<const std::uint64_t> members, std::uint64_t member,
                            const KeyHash& key) noexcept {
  const std::uint64_t mine = rendezvous_score(member, key);
  std::size_t before = 0;
  for (const std::uint64_t other : members) {
    const std::uint64_t score = rendezvous_score(other, key);
    before += static_cast<std::size_t>(score > mine || (score == mine && other < member));
  }
  return before;
}

}  // namespace weir::limit
