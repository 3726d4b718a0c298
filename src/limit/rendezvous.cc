#include "limit/rendezvous.h"

namespace weir::limit {
namespace {

// The finaliser of SplitMix64: every bit of the input moves every bit of the output.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace

std::uint64_t rendezvous_score(std::uint64_t member, const KeyHash& key) noexcept {
  return mixed(mixed(mixed(member) ^ key.hi) ^ key.lo);
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
