#pragma once

#include "policy/field_reader.h"
#include "policy/safeguard.h"

namespace weir::policy {

// `breakers:`, and `concurrency:`. What they may say is checked by check_breaker_config() and
// check_concurrency_config(); here it gets its place in the file.
std::vector<BreakerSpec> read_breakers(FaultList& faults, const Value& at);
std::vector<ConcurrencySpec> read_concurrency(FaultList& faults, const Value& at,
                                              const std::vector<std::string>& inputs);

}  // namespace weir::policy
