#pragma once

#include <set>
#include <string>

#include "policy/model.h"

// The names that a policy knows, for whoever misspelt one.
namespace weir::policy {

std::set<std::string> route_names(const Model& model);

// Every source that some rule counts by, or that the policy declares.
std::set<std::string> source_names(const Model& model);

// "a, b, c"; "none" where there are none.
std::string joined(const std::set<std::string>& words);

// "the policy has no route 'x'; it has: a, b"
std::string no_such_route(const Model& model, const std::string& route);

}  // namespace weir::policy
