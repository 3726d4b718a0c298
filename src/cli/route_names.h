#pragma once

#include <set>
#include <string>

#include "policy/model.h"

namespace weir::cli {

std::set<std::string> route_names(const policy::Model& model);

// "a, b, c"; "none" where there are none.
std::string joined(const std::set<std::string>& words);

// "the policy has no route 'x'; it has: a, b"
std::string no_such_route(const policy::Model& model, const std::string& route);

}  // namespace weir::cli
