#include "policy/envoy/counter_name.h"

namespace weir::policy {

void check_kept_by_envoyproxy(const Domain& domain, FaultList& faults) {
  for (const DescriptorLimit& limit : domain.limits) {
    if (!limit.rule) continue;
    const limit::Numbers& numbers = domain.scopes[limit.scope].route.rules[*limit.rule].numbers;
    std::string_view problem;
    if (numbers.algorithm != Algorithm::fixed_window) {
      problem = "is no fixed window, and `rls.keys: envoyproxy` counts in these alone";
    } else if (numbers.calendar != limit::Calendar::none) {
      problem = "follows the calendar, and `rls.keys: envoyproxy` counts from 1970 on";
    }
    if (problem.empty()) continue;
    faults.add(limit.place.line, limit.place.column, limit.path, "", std::string(problem),
               "fixed_window without `calendar`, or `rls: {keys: weir}`");
  }
}

}  // namespace weir::policy
