#include "testing/model_limiter.h"

namespace weir::testing {
namespace {

using limit::Outcome;
using limit::Step;
using store::Counter;
using store::Finding;
using store::Op;

Step carry_out(ModelCounter& counter, const Counter& asked, Instant now) {
  switch (asked.op) {
    case Op::take:
      return counter.take(now, asked.cost);
    case Op::drain:
      return counter.drain(now, asked.cost);
    case Op::refund:
      return counter.refund(now, asked.cost, asked.receipt);
    case Op::reset:
      counter = ModelCounter(counter.numbers());
      break;
  }
  return counter.take(now, 0);
}

// What is said of a counter of an ask that was denied: whether it alone would have fitted, and what
// there is now.
Step left_alone(const ModelCounter& counter, const Counter& asked, Instant now) {
  ModelCounter trial = counter;
  const bool charges = asked.op == Op::take || asked.op == Op::drain;
  const Step alone = trial.take(now, charges ? asked.cost : 0);
  if (charges && alone.outcome != Outcome::allowed) return alone;
  trial = counter;
  Step now_there = trial.take(now, 0);
  now_there.outcome = Outcome::allowed;
  now_there.retry_after_ns = 0;
  return now_there;
}

// Whether the ask is a charge that does not fit into a bucket that it sees converted.
bool begins_a_wait(const Counter& asked, const ModelCounter& seen, Instant now, bool fitted) {
  const bool charges = asked.op == Op::take || asked.op == Op::drain;
  return seen.numbers().algorithm == Algorithm::gcra && charges && asked.cost > 0 && !fitted &&
         !seen.fresh(now);
}

}  // namespace

ModelLimiter::Kept ModelLimiter::seen_by(const Counter& asked, Instant now) const {
  const auto found = kept_.find({asked.digest.hi, asked.digest.lo});
  if (found == kept_.end()) return {ModelCounter(*asked.numbers), asked.generation};
  Kept kept = found->second;
  if (asked.generation >= kept.generation) {
    if (!(kept.counter.numbers() == *asked.numbers)) kept.counter.convert(*asked.numbers, now);
    kept.generation = asked.generation;
  }
  return kept;
}

store::LocalAnswer ModelLimiter::decide(std::span<const Counter> counters, Instant now,
                                        std::span<Finding> findings) noexcept {
  store::LocalAnswer answer;
  answer.allowed = true;
  for (const Counter& asked : counters) {
    if (asked.op != Op::take || asked.shadow) continue;
    Kept trial = seen_by(asked, now);
    if (trial.counter.take(now, asked.cost).outcome != Outcome::allowed) answer.allowed = false;
  }
  for (std::size_t i = 0; i < counters.size(); ++i) {
    const Counter& asked = counters[i];
    const Key key{asked.digest.hi, asked.digest.lo};
    const Kept before = seen_by(asked, now);
    const auto kept = kept_.find(key);
    const bool converted =
        kept != kept_.end() && !(kept->second.counter.numbers() == before.counter.numbers());
    Kept after = before;
    Finding& finding = findings[i];
    finding = Finding{};
    finding.op = asked.op;
    finding.step = carry_out(after.counter, asked, now);
    const bool fitted = finding.step.outcome == Outcome::allowed;
    if (answer.allowed && asked.op != Op::reset) {
      finding.units = after.counter.charged() - before.counter.charged();
    }
    finding.charged = finding.units > 0;
    if (!answer.allowed) {
      finding.step = left_alone(before.counter, asked, now);
      // Only a clock that was set back, or other numbers, are followed, by the takes that did not
      // fit.
      if (asked.op != Op::take || fitted) continue;
    }
    if (asked.op == Op::reset) {
      kept_.erase(key);
    } else if (!(after.counter == before.counter) ||
               (converted && begins_a_wait(asked, before.counter, now, fitted))) {
      kept_.insert_or_assign(key, after);
    }
  }
  return answer;
}

}  // namespace weir::testing
