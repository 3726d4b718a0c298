#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/raw_array.h"
#include "base/snapshot.h"
#include "breaker/probe_breaker.h"
#include "ladder/ceiling.h"
#include "ladder/known_table.h"
#include "ladder/membership.h"
#include "ladder/overspend_table.h"
#include "policy/route.h"
#include "store/counter.h"
#include "weir/clock.h"
#include "weir/decision.h"
#include "weir/limits.h"

namespace weir::ladder {

// What one request asks of one shard, and what its route says for the time without it.
struct LadderRequest {
  std::span<const store::Counter> counters;
  std::uint64_t cost = 1;
  FailurePolicy when_store_fails = FailurePolicy::closed;
  Ceiling* ceiling = nullptr;                       // the route's, in this process; absent: none
  const limit::Numbers* ceiling_numbers = nullptr;  // absent: none
  // Of a route that settles, and whose usage can be recorded: bit i says that counters[i] is of a
  // metered rule.
  std::uint64_t metered = 0;
  const policy::Overspend* overspend = nullptr;  // what these may be served beyond the part
  // The last so many counters are no limits but marks of an idempotency key: a store that has them
  // denies the request. Without the store they say nothing.
  std::size_t marks = 0;
  // Bit i says that counters[i] reports what was used already: a part that cannot hold it is used
  // up rather than too small.
  std::uint64_t late = 0;
  // Bit i says that counters[i] is in shadow for the store's sake alone: others decide by it, so
  // that it is no rule that denies nobody.
  std::uint64_t decided_elsewhere = 0;

  // Whether all its limits are in shadow: such a request nobody denies or refuses, nor holds to the
  // ceiling, with the store and without it.
  bool denied_by_none() const noexcept {
    const std::size_t limits = counters.size() - marks;
    for (std::size_t i = 0; i < limits; ++i) {
      if (!counters[i].shadow || (decided_elsewhere >> i & 1) != 0) return false;
    }
    return limits > 0;
  }
  // The same without the marks.
  LadderRequest limits() const noexcept {
    LadderRequest same = *this;
    same.counters = counters.first(counters.size() - marks);
    same.marks = 0;
    return same;
  }
};

// A decision, before it is put into words.
struct LadderVerdict {
  Verdict verdict = Verdict::refused;
  Rung rung = Rung::policy;
  Reason reason = Reason::store_unavailable;
  std::optional<Nanos> retry_after;
  bool numbers_known = false;  // the findings say something that may be shown
  bool unenforced = false;     // admitted although nobody counted
  // Metered usage that must be durable before anybody is told; not_recorded() where it cannot be.
  bool record = false;
  std::uint64_t overspent = 0;  // bit i: counters[i] was served beyond this worker's part
  bool was_sent = false;  // decided without the store, which may have carried it out all the same
  // Of a request that several shards decided: bit i says that counters[i] was charged by its store,
  // or by the fallback store, whatever the rung of the whole.
  std::uint64_t by_store = 0;
  std::uint64_t by_fallback = 0;
  // Of one that was decided without the store: bit i says that it turned out to have charged
  // counters[i] all the same, so that this is owed no more. For who takes the decision back.
  std::uint64_t charged_late = 0;
};

// The clocks of one moment: the store's as well as it is known here, and the monotonic one.
struct Moment {
  Instant store;
  MonoTime mono;
};

// Decides by one shard: with it while it answers, without it while it does not. Knows no network:
// whoever asks the store says what came of it.
//
//   begin()    before the store is asked: decided already, ask, or away
//   learn()    the store answered
//   without()  the store was not asked, or did not answer in time
//
// Threads:     any; shared by all lanes of a process.
class ShardLadder {
 public:
  // A denial is answered locally while what is known is no older than this, as long as the shard
  // answers.
  static constexpr Nanos kKnownDenialAge = std::chrono::seconds(1);

  struct Options {
    breaker::ProbeBreakerConfig breaker;
    std::size_t known_keys = 100'000;
    std::uint64_t random_seed =
        0;  // of this process: jitter, and the numbers under which it tells what it owes
    // What was served beyond this worker's parts, where several ladders keep it together: a counter
    // that moves from one to another must not be served its cap again. Null: this one's own.
    std::shared_ptr<OverspendTable> overspend = nullptr;
  };
  explicit ShardLadder(const Options& options);

  enum class Begin : std::uint8_t {
    ask,      // the store is to be asked
    decided,  // `verdict` is the decision, and findings are filled in where it says so
    away,     // the store is not asked now: without() decides, unless somebody else can be asked
  };
  Begin begin(const LadderRequest& request, const Moment& now, std::span<store::Finding> findings,
              LadderVerdict& verdict) noexcept;

  // The route's policy decides. Counters to be drained use up this worker's part where the policy
  // is to serve parts, and are owed; else nobody hears of them. A request is of such counters
  // alone, or of none.
  LadderVerdict without(const LadderRequest& request, const Moment& now,
                        std::span<store::Finding> findings) noexcept;

  // Takes back what without() has just admitted from this worker's part, with these findings: the
  // request was denied elsewhere. `charged_late` is as in LadderVerdict.
  void unspend(const LadderRequest& asked, const Moment& now,
               std::span<const store::Finding> findings, std::uint64_t charged_late) noexcept;
  // Whether the request's ceiling, where it has one, admits it too; else `verdict` says so.
  static bool under_ceiling(const LadderRequest& request, Instant now,
                            LadderVerdict& verdict) noexcept;
  // What is told instead of `served`, whose usage could not be recorded: what it took here is given
  // back. `now` and `findings` are those of the decision.
  LadderVerdict not_recorded(const LadderRequest& asked, const Moment& now,
                             std::span<store::Finding> findings,
                             const LadderVerdict& served) noexcept;

  // An earlier process served so many units of a counter beyond its part, in the window that begins
  // then.
  void restore_overspend(const KeyDigest& digest, Instant window, std::uint64_t units) {
    overspend_->restore(digest, window, units);
  }

  // Who shares the limits from now on.
  void divide(Division division);
  SnapshotCell<Division>::Ref division() const { return division_.read(); }

  breaker::ProbeBreaker& breaker() noexcept { return breaker_; }
  const breaker::ProbeBreaker& breaker() const noexcept { return breaker_; }
  KnownTable& known() noexcept { return known_; }
  const KnownTable& known() const noexcept { return known_; }

 private:
  bool deny_by_known(const LadderRequest& request, const Moment& now, std::optional<Nanos> max_age,
                     std::span<store::Finding> findings, LadderVerdict& verdict) const noexcept;
  void wait_for_part(const LadderRequest& request, const Moment& now,
                     std::span<store::Finding> findings, LadderVerdict& verdict) const noexcept;
  LadderVerdict without_marks(const LadderRequest& request, const Moment& now,
                              std::span<store::Finding> findings) noexcept;
  LadderVerdict share(const LadderRequest& request, const Moment& now,
                      std::span<store::Finding> findings) noexcept;
  LadderVerdict use_up(const LadderRequest& request, const Moment& now,
                       std::span<store::Finding> findings) noexcept;
  struct Shares {
    RawArray<KnownTable::Share, store::kMaxCounters> all;
    std::size_t count = 0;
    std::span<const KnownTable::Share> view() const { return {all.data(), count}; }
  };
  // Of the counters whose bit is not in `without`.
  void shares_of(const LadderRequest& request, const Division& division, std::uint64_t without,
                 Shares& out) const noexcept;
  bool serve_beyond(const LadderRequest& request, const Division& division, const Moment& now,
                    std::span<store::Finding> findings, LadderVerdict& verdict) noexcept;
  bool take_overspend(const LadderRequest& request, const Division& division, std::uint64_t which,
                      Instant now) noexcept;
  void give_back_overspend(const LadderRequest& request, const Division& division,
                           std::uint64_t which, Instant now) noexcept;
  LadderVerdict refused(const Moment& now) const noexcept;

  breaker::ProbeBreaker breaker_;
  KnownTable known_;
  const std::shared_ptr<OverspendTable> overspend_;
  SnapshotCell<Division> division_;
};

}  // namespace weir::ladder
