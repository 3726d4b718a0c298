#pragma once

#include <vector>

#include "render/exposition.h"
#include "weir/breaker.h"
#include "weir/concurrency.h"

namespace weir::render {

// The families weir_circuit_* and weir_lease_*; nothing where there are none of either.
void write_breakers(Exposition& out, const std::vector<BreakerSnapshot>& breakers);
void write_concurrency(Exposition& out, const std::vector<ConcurrencySnapshot>& limits);

}  // namespace weir::render
