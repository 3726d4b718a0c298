#pragma once

#include <span>
#include <string_view>

#include "guard/plan.h"
#include "store/counter.h"
#include "weir/decision.h"

namespace weir::guard {

// One rule's report of what a store found for its counter at the store's time `now`.
RuleReport report_of(std::string_view rule, const store::Counter& counter,
                     const store::Finding& finding, Instant now);

// What is known of a rule's reports before it is asked: all but which counter, and what was found.
RuleReport outline_of(const BoundRule& bound);

// The report of a rule that no store was asked about: its numbers, and that it does not let the
// request through.
RuleReport unasked(const BoundRule& bound);

// Says of a decision that one of its rules denies it: why, and how long to wait; `blocked` where
// the limit is 0. Comes for each denying rule; the worst of them is what the decision says.
void deny(Decision& decision, const RuleReport& report) noexcept;

// Begins the reports of a plan's rules, with what is known of them before a store answers. Requires
// a decision without any.
void outline(const Plan& plan, Decision& decision);

// Completes them with what the store found: see compose().
void fill_in(const Plan& plan, std::span<const store::Finding> findings, Instant now, Rung rung,
             Decision& decision) noexcept;

// Both at once. Puts what a store found into words: one report a rule, and over all of them limited
// before allowed. A shadow rule is reported and never decides.
//
// `now` is the store's time of the decision.
void compose(const Plan& plan, std::span<const store::Finding> findings, Instant now, Rung rung,
             Decision& decision);

}  // namespace weir::guard
