#include "cli/route_names.h"

namespace weir::cli {

std::set<std::string> route_names(const policy::Model& model) {
  std::set<std::string> names;
  for (const policy::Route& route : model.routes) names.insert(route.name);
  return names;
}

std::string joined(const std::set<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text.empty() ? "none" : text;
}

std::string no_such_route(const policy::Model& model, const std::string& route) {
  return "the policy has no route '" + route + "'; it has: " + joined(route_names(model));
}

}  // namespace weir::cli
