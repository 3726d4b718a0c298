#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "guard/shared_ask.h"
#include "store/counter.h"
#include "store/redis/ask.h"

namespace weir::guard {

// Most asks that go to the store as one.
inline constexpr std::size_t kMostCoalesced = 64;

// Whether an ask may go to the store as one with others that are alike: all its counters are taken
// from, may deny, are not probed, and keep a state that says of each caller what it found.
bool coalesces(const SharedAsk& ask) noexcept;

// Whether two asks that coalesce are for the identical counters, at equal cost and under equal
// numbers, and have to be answered at about the same time.
bool alike(const SharedAsk& one, const SharedAsk& other) noexcept;

// Gathers asks that are alike.
//
// Guarantees:  every ask is in exactly one group; groups come in the order of their first, and
//              those of a group in the order in which they were given. An ask that does not
//              coalesce is a group of its own.
// Cost:        O(asks), and no allocation once it has seen as many.
class Coalescer {
 public:
  // Calls `send` with each group. Asks whose time has come go by themselves: a group is answered by
  // the earliest time of its own.
  template <class Send>
  void gather(std::span<SharedAsk* const> asks, MonoTime now, Send send) {
    if (asks.size() == 1) {
      send(asks);
      return;
    }
    link(asks, now);
    for (const Group& group : groups_) {
      members_.clear();
      for (std::uint32_t i = group.first; i != kNone; i = next_[i]) members_.push_back(asks[i]);
      send(std::span<SharedAsk* const>(members_));
    }
  }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct Group {
    std::uint32_t first;
    std::uint32_t last;
    std::uint32_t size;
  };

  void link(std::span<SharedAsk* const> asks, MonoTime now);

  std::vector<Group> groups_;
  std::vector<std::uint32_t> next_;   // of an ask: the next of its group
  std::vector<std::uint32_t> table_;  // by the hash of an ask: its open group
  std::vector<SharedAsk*> members_;
};

// Of callers that asked as one: what each would have found, had they asked one after the other at
// the moment of the answer.
//
// Requires:    the answer is decided, and is of `counters`, each at the cost of one caller.
class InTurn {
 public:
  InTurn(std::span<const store::Counter> counters, const store::redis::Answer& answer);

  // The next caller's findings. Whether it was admitted.
  bool next(std::span<store::Finding> findings) noexcept;

 private:
  const std::span<const store::Counter> counters_;
  const store::redis::Answer& answer_;
  std::vector<limit::State> states_;
};

}  // namespace weir::guard
