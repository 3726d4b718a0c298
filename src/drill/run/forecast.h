#pragma once

#include "drill/run/drill.h"
#include "policy/model.h"

namespace weir::drill {

// Works out beforehand what the faults of the report's scenario may cost, and reads from the report
// what they did. Empty where a scenario has no faults, or where they do not end.
//
// Requires:    `report` has its tallies and moments.
Forecast forecast_of(const DrillReport& report, const policy::Model& model,
                     const DrillOptions& options);

}  // namespace weir::drill
