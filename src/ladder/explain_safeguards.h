#pragma once

#include "ladder/explain.h"

namespace weir::ladder {

// What breakers and concurrency limits mean, in sentences.
ExplainedSafeguard explained(const policy::BreakerSpec& spec);
ExplainedSafeguard explained(const policy::ConcurrencySpec& spec, std::uint32_t workers);

}  // namespace weir::ladder
