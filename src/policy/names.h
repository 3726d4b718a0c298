#pragma once

#include <set>
#include <string>

#include "policy/model.h"

// The names that a policy knows, for whoever misspelt one.
namespace weir::policy {

std::set<std::string> route_names(const Model& model);

// Every source that some rule counts by, or that the policy declares.
std::set<std::string> source_names(const Model& model);

// "a, b, c"; of more than twenty the first ones and how many more there are; "none" where there are
// none.
std::string joined(const std::set<std::string>& words);

// "; did you mean 'b'?", where one of the words is near to what was given; else nothing.
std::string meant(const std::string& given, const std::set<std::string>& words);

// "the policy has no route 'x'; did you mean 'y'?; it has: a, b"
std::string no_such_route(const std::string& route, const std::set<std::string>& names);

}  // namespace weir::policy
