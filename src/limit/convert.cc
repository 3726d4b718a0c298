#include "limit/gcra.h"
#include "limit/step.h"

namespace weir::limit {
namespace {

bool same_windows(const Numbers& a, const Numbers& b) {
  return a.algorithm == b.algorithm && a.period_ns == b.period_ns && a.calendar == b.calendar &&
         a.calendar_count == b.calendar_count;
}

}  // namespace

State convert(const Numbers& from, const Numbers& to, const State& state, Instant now) noexcept {
  if (!same_windows(from, to)) return State{};
  if (from.algorithm == Algorithm::gcra) return gcra_convert(from, to, state, now);
  return state;  // counts of the same windows
}

}  // namespace weir::limit
