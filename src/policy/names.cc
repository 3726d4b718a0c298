#include "policy/names.h"

#include <string_view>

#include "policy/fault_list.h"

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
  constexpr std::size_t kMostNamed = 20;
  if (words.empty()) return "none";
  std::string text;
  std::size_t named = 0;
  for (const std::string& word : words) {
    if (named == kMostNamed) return text + " and " + std::to_string(words.size() - named) + " more";
    text += (named++ == 0 ? "" : ", ") + word;
  }
  return text;
}

std::string meant(const std::string& given, const std::set<std::string>& words) {
  const std::string_view word = nearest(given, {words.begin(), words.end()});
  return word.empty() ? "" : "; did you mean '" + std::string(word) + "'?";
}

std::string no_such_route(const std::string& route, const std::set<std::string>& names) {
  return "the policy has no route '" + route + "'" + meant(route, names) +
         "; it has: " + joined(names);
}

}  // namespace weir::policy
