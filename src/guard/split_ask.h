#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "guard/shard_driver.h"
#include "guard/shared_ask.h"
#include "ladder/shard_ladder.h"
#include "store/counter.h"
#include "weir/clock.h"

namespace weir::guard {

// Which shard decides the counters of a slot.
class SlotOwners {
 public:
  virtual ~SlotOwners() = default;
  // From any thread; it lives as long as the owners do.
  virtual ShardDriver& owner(std::uint16_t slot) noexcept = 0;
  // From the loop: sends an ask that `to` has begun, once what is being answered is over.
  virtual void send_soon(SharedAsk& ask, ShardDriver& to) noexcept = 0;
};

// The request of the counters at those places of a request's. The ceiling is the whole's to take.
ladder::LadderRequest part_of(const ladder::LadderRequest& whole,
                              std::span<const store::Counter> counters,
                              std::span<const std::size_t> places) noexcept;

// Whatever is in the findings of a counter that nobody decided.
store::Finding undecided(const store::Counter& counter) noexcept;

// What several shards' verdicts over parts of one request come to: limited, else refused, else
// allowed, by the rung that is furthest from the store.
class JoinedVerdict {
 public:
  void add(const ladder::LadderVerdict& part) noexcept;
  // Requires: something was added.
  const ladder::LadderVerdict& verdict() const noexcept { return *joined_; }

 private:
  std::optional<ladder::LadderVerdict> joined_;
};

// One ask whose counters lie in several slots of a cluster: a part a slot, all asked at once. What
// a part takes is a reserve: where another part denies, it is given back after the answer.
//
// The part with the marks of an idempotency key is asked once all others have admitted, and takes:
// a mark that stood for a request which is denied in the end would have it admitted the next time.
// Where another part denied it only looks whether the marks stand.
//
// Guarantees:  `whole` is decided exactly once. Never more than a limit is admitted; a denied
//              request holds its reserves for about a round trip, and one that cannot be given back
//              stays charged.
// Threads:     begin() in the asker's; then, where something is to be sent, the loop's.
class SplitAsk {
 public:
  // `slots` are those of the whole's counters.
  SplitAsk(SharedAsk& whole, std::span<const std::uint16_t> slots, SlotOwners& owners);
  SplitAsk(const SplitAsk&) = delete;
  SplitAsk& operator=(const SplitAsk&) = delete;

  // Whether send() comes next. False: the whole is decided.
  bool begin() noexcept;
  // A part that is to be sent, and to whom.
  struct Sending {
    SharedAsk* ask;
    ShardDriver* shard;
  };
  // Adds the parts that are to be sent, each of them once. From here on it owns itself, and goes
  // when the whole is decided.
  void send(std::vector<Sending>& out);
  // In place of send(): there is no room for it. The same holds.
  void no_room() noexcept;

 private:
  struct Part final : SharedAsk {
    void decided(const ladder::LadderVerdict& by, Instant store_now) noexcept override {
      verdict = by;
      now = store_now;
      answered = true;
      of->part_decided();
    }

    bool hold(std::unique_ptr<SharedAsk>& second, ShardDriver& at) noexcept override {
      if (!of->busy_) return false;
      held = std::move(second);
      held_at = &at;
      return true;
    }

    bool counts_at(const ShardDriver& shard) noexcept override {
      for (const auto& part : of->parts_) {
        if (part->counted_at == &shard) return false;
      }
      counted_at = &shard;
      return true;
    }

    SplitAsk* of = nullptr;
    const ShardDriver* counted_at = nullptr;
    std::uint16_t slot = 0;
    std::vector<std::size_t> places;  // in the whole
    std::vector<store::Counter> counters;
    bool sent = false;
    bool looks = false;  // takes nothing
    // In place of being sent: what another store is to be asked.
    std::unique_ptr<SharedAsk> held;
    ShardDriver* held_at = nullptr;
    bool answered = false;
    ladder::LadderVerdict verdict;
    Instant now{};
  };

  static bool goes_with(const Part& part, const store::Counter& counter,
                        std::uint16_t slot) noexcept;
  void part_decided() noexcept;
  void finish_if_decided() noexcept;
  void begin_marked() noexcept;
  bool denied() const noexcept;
  const Part* standing() const noexcept;
  void finish() noexcept;
  ladder::LadderVerdict join() noexcept;
  void note_parts(ladder::LadderVerdict& verdict) const noexcept;
  void collect(bool allowed);
  std::uint64_t give_back_late();
  void undo(const std::optional<SharedAsk::OwnDecision>& own) noexcept;

  SharedAsk& whole_;
  SlotOwners& owners_;
  std::vector<std::unique_ptr<Part>> parts_;
  Part* marked_ = nullptr;   // that is still to begin
  std::size_t waiting_ = 0;  // parts that are not decided
  bool busy_ = false;        // with its parts: nothing is over before all have been looked at
};

// Decides parts by slot without any shard: for a caller that waits no longer.
ladder::LadderVerdict split_without(const ladder::LadderRequest& request,
                                    std::span<const std::uint16_t> slots, SlotOwners& owners,
                                    std::span<store::Finding> findings) noexcept;

// What is told instead of `served`, whose usage could not be recorded: see
// ShardLadder::not_recorded(). What stores charged is not given back here.
ladder::LadderVerdict split_not_recorded(const ladder::LadderRequest& request,
                                         std::span<const std::uint16_t> slots, SlotOwners& owners,
                                         std::span<store::Finding> findings,
                                         const ladder::LadderVerdict& served) noexcept;

}  // namespace weir::guard
