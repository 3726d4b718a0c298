#pragma once

#include "cli/check.h"
#include "cli/environment.h"

namespace weir::cli {

// `weir check --rls ADDR DOMAIN k=v,k=v …`: asks any rate limit service; each word after the domain
// is one descriptor. CheckCommand::policy is then the domain, and route the first descriptor.
ExitCode check_rls(Environment& environment, const CheckCommand& command);

}  // namespace weir::cli
