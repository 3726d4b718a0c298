#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "guard/shared_ask.h"

namespace weir::guard {

// Whether a second store may be asked in place of the first one: there is time, and nothing in it
// is of what the first one counted, as a refund or a reset is.
inline bool may_fall_back(const SharedAsk& ask, MonoTime now) noexcept {
  const auto counters = ask.request.counters;
  return now < ask.answer_by &&
         std::all_of(counters.begin(), counters.end(),
                     [](const store::Counter& c) { return c.op == store::Op::take; });
}

// An ask of the first store, put to a second one. What the second one says is the decision, of rung
// fallback; where it cannot say either, the first one's policy decides.
//
// Guarantees:  `of` is decided exactly once. What the second store admits is not owed to the first.
class FallbackAsk final : public SharedAsk {
 public:
  // Where the second store did not decide; called once, in place of `of`'s decided().
  using Neither = std::function<void(SharedAsk& of)>;
  // Told before `of` is: whether the second store decided it.
  using Counted = std::function<void(SharedAsk& of, bool decided)>;

  // Requires:    `of` lives until it is decided; `neither` decides it.
  FallbackAsk(SharedAsk& of, Neither neither, Counted counted)
      : of_(of), neither_(std::move(neither)), counted_(std::move(counted)) {
    request = of.request;
    // Its own policy says no more than that it cannot be asked.
    request.when_store_fails = FailurePolicy::closed;
    request.ceiling = nullptr;
    request.ceiling_numbers = nullptr;
    answer_by = of.answer_by;
    loaded_at = of.loaded_at;
  }

  void decided(const ladder::LadderVerdict& verdict, Instant store_now) noexcept override {
    const std::unique_ptr<FallbackAsk> self(this);
    // What its own ladder lets through without it, as of rules in shadow, it did not decide.
    const bool decided = verdict.verdict != Verdict::refused && !verdict.unenforced;
    counted_(of_, decided);
    if (!decided) {
      neither_(of_);
      return;
    }
    std::copy(findings().begin(), findings().end(), of_.findings().begin());
    ladder::LadderVerdict told = verdict;
    told.rung = Rung::fallback;
    of_.asked_of = asked_of;  // what it charged lies there
    of_.decided(told, store_now);
  }

  std::optional<OwnDecision> decided_by_itself() noexcept override {
    return of_.decided_by_itself();
  }

 private:
  SharedAsk& of_;
  const Neither neither_;
  const Counted counted_;
};

}  // namespace weir::guard
