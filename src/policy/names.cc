#include "policy/names.h"

namespace weir::policy {

std::set<std::string> route_names(const Model& model) {
  std::set<std::string> names;
  for (const Route& route : model.routes) names.insert(route.name);
  return names;
}

std::set<std::string> source_names(const Model& model) {
  std::set<std::string> names(model.inputs.begin(), model.inputs.end());
  for (const Route& route : model.routes) {
    for (const Source& source : route.sources) names.insert(source.text);
  }
  return names;
}

std::string joined(const std::set<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text.empty() ? "none" : text;
}

std::string no_such_route(const Model& model, const std::string& route) {
  return "the policy has no route '" + route + "'; it has: " + joined(route_names(model));
}

}  // namespace weir::policy
