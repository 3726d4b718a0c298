#pragma once

#include <span>
#include <string>

#include "drill/run/drill.h"
#include "policy/model.h"

namespace weir::drill {

// Whether a route's calls are billed: it settles, and some rule of it meters.
bool is_metered(const policy::Route& route);
bool is_metered(const policy::Model& model);

// How the calls of one route went, in units, as their callers saw it.
struct CallsOfRoute {
  std::string route;
  std::uint64_t served = 0;
  std::uint64_t unanswered = 0;  // what became of these nobody knows
};

// What the journal in this folder, and the ledger in it, made of these calls. Once nobody writes
// there any more.
UsageReport check_bill(const policy::Model& model, std::span<const CallsOfRoute> calls,
                       const std::string& folder);

}  // namespace weir::drill
