#pragma once

#include <cstdint>

#include "limit/gcra.h"
#include "limit/step.h"
#include "store/counter.h"
#include "store/memory/line.h"

namespace weir::store {

// One counter of an ask, while the ask is decided.
struct Item {
  const Counter* counter;
  Finding* finding;
  const limit::Numbers* numbers;  // those the step is taken under
  bool present;                   // the counter is kept; else it is fresh
  bool changes;                   // the step, carried out, writes
  bool reserved;                  // its place was taken by this ask
  bool without_room;              // a shadow rule's, for which there was no room
  limit::State state;
  limit::Step step;
  std::uint64_t units;  // charged, once it is written

  // In the table of lines.
  Line* home;
  Held* held;  // the line it stands in, where present
  unsigned slot;
  unsigned new_id;  // a reference to the numbers it was converted to, until it is written

  // Among the logs.
  std::uint32_t log;    // its node's cell
  std::uint32_t spare;  // a cell for one more entry
};

// limit::take(), with the most common algorithm compiled into the caller.
inline limit::Step take_step(const limit::Numbers& numbers, const limit::State& state, Instant now,
                             std::uint64_t cost) noexcept {
  if (numbers.algorithm == Algorithm::gcra) [[likely]] {
    return limit::gcra_take(numbers, state, now, cost);
  }
  return limit::take(numbers, state, now, cost);
}

// The step that the counter's ask means, on a state kept under `numbers`.
inline limit::Step step_for(const Counter& counter, const limit::Numbers& numbers,
                            const limit::State& state, Instant now) noexcept {
  switch (counter.op) {
    case Op::take:
      return take_step(numbers, state, now, counter.cost);
    case Op::drain:
      return limit::drain(numbers, state, now, counter.cost);
    case Op::refund:
      return limit::refund(numbers, state, now, counter.cost, counter.receipt);
    case Op::reset:
      break;
  }
  return limit::take(numbers, limit::State{}, now, 0);
}

// Whether the item's is a gcra that was converted to other numbers, and a charge that does not fit.
// What it was converted to is then kept, or each ask would convert anew what drains by the old
// numbers: the wait that it is told would not be the one it has.
inline bool begins_its_wait(const Item& item) noexcept {
  return item.numbers->algorithm == Algorithm::gcra && item.present && item.new_id != 0 &&
         item.counter->cost > 0 && item.step.outcome != limit::Outcome::allowed &&
         item.state != limit::State{};
}

// Whether carrying out the item's step leaves another state than there was.
inline bool step_changes(const Item& item) noexcept {
  switch (item.counter->op) {
    case Op::take:
      return item.step.outcome == limit::Outcome::allowed && item.counter->cost > 0;
    case Op::drain:
      return item.step.next != item.state || begins_its_wait(item);
    case Op::refund:
      return item.present && item.step.next != item.state;
    case Op::reset:
      break;
  }
  return item.present;
}

// Whether a charge that does not fit writes all the same: the clock was set back and it is to
// follow it (see limit/step.h), or the counter's numbers changed.
inline bool denial_writes(const Item& item) noexcept {
  return item.present && item.counter->op == Op::take &&
         item.step.outcome != limit::Outcome::allowed &&
         (item.step.next != item.state || begins_its_wait(item));
}

// Whether the item's counter makes the whole ask denied.
inline bool denies(const Item& item) noexcept {
  return item.counter->op == Op::take && !item.counter->shadow &&
         item.step.outcome != limit::Outcome::allowed;
}

// How many units a step that is carried out takes. Not for logs, whose charge knows it.
inline std::uint64_t units_charged(const Item& item, Instant now) noexcept {
  const Counter& counter = *item.counter;
  if (counter.op == Op::take) return counter.cost;
  if (counter.op != Op::drain) return 0;
  if (item.step.outcome == limit::Outcome::allowed) return counter.cost;
  return limit::take(*item.numbers, item.state, now, 0).remaining;
}

// What is said of a counter whose step was not carried out: whether it alone would have fitted, and
// what there is now. `peek(cost)` is the step that a charge of so much would be.
template <class Peek>
limit::Step left_alone(const Counter& counter, Peek peek) noexcept {
  const bool charges = counter.op == Op::take || counter.op == Op::drain;
  const limit::Step alone = peek(charges ? counter.cost : 0);
  if (charges && alone.outcome != limit::Outcome::allowed) return alone;
  limit::Step step = peek(0);
  step.outcome = limit::Outcome::allowed;
  step.retry_after_ns = 0;
  return step;
}

// Writes the item's finding.
template <class Peek>
void report(const Item& item, bool carried_out, Peek peek) noexcept {
  Finding& finding = *item.finding;
  finding = Finding{};
  finding.op = item.counter->op;
  if (!carried_out || item.without_room) {
    finding.step = left_alone(*item.counter, peek);
    return;
  }
  finding.step = item.step;
  finding.units = item.units;
  finding.charged = item.units > 0;
}

}  // namespace weir::store
