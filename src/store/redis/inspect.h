#pragma once

#include <optional>
#include <string>
#include <vector>

#include "policy/envoy/name_trial.h"
#include "policy/model.h"
#include "store/redis/error_class.h"
#include "store/redis/store_report.h"
#include "weir/clock.h"
#include "weir/result.h"

namespace weir::store::redis {

// What came of one look at a server.
struct Inspection {
  // What it said of itself; absent where it did not get that far.
  std::optional<StoreReport> report;
  // Why no limit can be decided there; absent: it can.
  const ErrorRow* error = nullptr;
  std::string error_text;
  Nanos took{0};  // from the first byte to the end of the self-test, with connecting
};

// Connects once, greets, runs the self-test and hangs up; with every master of a cluster. It writes
// what the self-test writes: a probe that lives for seconds, and the epoch of the store; and under
// each of `names` a count that it takes away at once.
//
// Errors:      invalid_argument (URL, prefix, password file); failed_precondition (memory:).
// Threads:     blocks the caller, at most twice the spec's connect timeout for each server.
Result<Inspection> inspect(const policy::StoreSpec& spec,
                           const std::vector<policy::NameTrial>& names, Clock& clock);

}  // namespace weir::store::redis
