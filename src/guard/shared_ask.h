#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/raw_array.h"
#include "guard/late_charges.h"
#include "ladder/shard_ladder.h"
#include "store/counter.h"
#include "store/local_store.h"
#include "weir/clock.h"

namespace weir::guard {

class ShardDriver;

// One decision under way on a shared store. Whoever asks owns it, and everything it points to,
// until decided().
class SharedAsk {
 public:
  virtual ~SharedAsk() = default;
  // Called exactly once, in the asking thread or in the store's. findings() hold what was found.
  virtual void decided(const ladder::LadderVerdict& verdict, Instant store_now) noexcept = 0;

  // What an asker decided without the store when it would wait no longer.
  struct OwnDecision {
    ladder::LadderVerdict verdict;
    std::span<const store::Finding> findings;
  };
  // Comes before decided(), in the store's thread. Absent: the asker still waits, and takes what
  // decided() brings.
  virtual std::optional<OwnDecision> decided_by_itself() noexcept { return std::nullopt; }

  // Takes what is to be put to a second store in this one's place, to send it there with the parts
  // of a whole that are sent: while that is looked at, nobody may decide any of them elsewhere.
  // False: it is sent at once.
  virtual bool hold(std::unique_ptr<SharedAsk>& second, ShardDriver& at) noexcept {
    (void)second;
    (void)at;
    return false;
  }

  // Whether a decision that its store did not make is one more of a request: told who asks about
  // each, once. Not of errands, which nobody was answered by; and of the parts of one request one
  // at each shard.
  virtual bool counts_at(const ShardDriver& shard) noexcept {
    (void)shard;
    return true;
  }

  // Which store it is for: what follows a decision goes where the decision was made.
  enum class Where : std::uint8_t { first, fallback };

  ladder::LadderRequest request;
  Where where = Where::first;
  MonoTime answer_by{};        // decided by then, whatever happens
  Instant loaded_at{};         // when its numbers were: see BoundPolicy
  std::uint8_t redirects = 0;  // of a cluster, that were followed
  // Whose it was last, and whether it was sent there ahead of its slot: what it charged lies there.
  ShardDriver* asked_of = nullptr;
  bool asking = false;
  // What it asks is right whenever the store does it: a charge that comes late is not taken back.
  bool stands = false;
  // Its counters are refunds, given back as what came too late is (see GiveBacks): it is decided as
  // soon as that has begun, also where the store is away.
  bool gives_back = false;
  // Of a call that was decided without the store, and is told once its usage is recorded: made by
  // who decided, before that is told.
  std::shared_ptr<LateCharges> late;
  // One for each counter of the request.
  std::span<store::Finding> findings() noexcept {
    if (!made_) findings_.construct_first(request.counters.size());
    made_ = true;
    return {findings_.data(), request.counters.size()};
  }

 private:
  bool made_ = false;
  RawArray<store::Finding, store::kMaxCounters> findings_;
};

}  // namespace weir::guard
