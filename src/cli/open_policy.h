#pragma once

#include <optional>
#include <string>

#include "cli/environment.h"
#include "weir/policy.h"

namespace weir::cli {

// A store that is used instead of the file's, and who names it: "--store" or "WEIR_STORE".
struct StoreOverride {
  std::string url;
  std::string from;
};

// The store that the command line or WEIR_STORE names instead of the file's; absent where neither
// does. An empty WEIR_STORE counts as not given.
std::optional<StoreOverride> store_override(const Environment& environment,
                                            const std::string& given);

// What is wrong with its URL, and where to change it; absent: nothing.
std::optional<std::string> fault_of(const StoreOverride& store);

// A policy on the store that store_override() names. Where that cannot be it says so and returns
// nothing.
std::optional<Policy> on_its_store(Environment& environment, Policy policy,
                                   const std::string& store, ExitCode& code);

// Loads a policy and puts it on the store that store_override() names. Where that fails it says so
// and returns nothing.
std::optional<Policy> open_policy(Environment& environment, const std::string& path,
                                  const std::string& store, ExitCode& code);

}  // namespace weir::cli
