#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weir::limit {

// Highest random weight: every member has a score for every key, and the members' order for a key
// is the order of their scores. A member that joins or leaves moves nobody else relative to each
// other, and different keys have different firsts.
//
// Guarantees:  the same in every process, version and machine of a fleet: the scores are part of
//              what workers agree on without talking.

// What a key's digest is here; whoever digests it sees to it that clients cannot choose it.
struct KeyHash {
  std::uint64_t hi = 0;
  std::uint64_t lo = 0;
};

std::uint64_t rendezvous_score(std::uint64_t member, const KeyHash& key) noexcept;

// How many of `members` come before `member` in the key's order: 0 is the first. A member that is
// not among them is ranked as if it were. Equal scores go by the member's own digest.
//
// Cost:        O(members), no allocation.
std::size_t rendezvous_rank(std::span<const std::uint64_t> members, std::uint64_t member,
                            const KeyHash& key) noexcept;

}  // namespace weir::limit
