#pragma once

#include <span>
#include <vector>

#include "drill/run/drill.h"
#include "drill/run/placement.h"
#include "policy/model.h"

namespace weir::drill {

// One call that was allowed.
struct Admission {
  std::uint32_t client = 0;
  Instant sent{};
  Instant answered{};
};

// Compares what the calls of one route were admitted with what its rules may admit over the
// scenario, key by key and window by window.
//
// Guarantees:  a call counts in a window only where it began and ended inside it, so that a bound
//              that is said to be broken was.
// `begin` is when the scenario began, for the timelines. Where only some keys are on what the
// faults strike, `placement` says which: the others are held to what they may have while nothing
// fails.
std::vector<BoundCheck> check_bounds(const policy::Model& model, const policy::Route& route,
                                     std::span<const Admission> admissions,
                                     const Scenario& scenario, Instant begin = Instant{},
                                     const Placement* placement = nullptr);

}  // namespace weir::drill
