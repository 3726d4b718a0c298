#pragma once

#include <span>

#include "guard/plan.h"
#include "store/counter.h"
#include "weir/decision.h"

namespace weir::guard {

// Puts what a store found into words: one report a rule, and over all of them limited before
// allowed. A shadow rule is reported and never decides.
//
// `now` is the store's time of the decision.
void compose(const Plan& plan, std::span<const store::Finding> findings, Instant now, Rung rung,
             Decision& decision);

}  // namespace weir::guard
