#include "policy/match.h"

#include <algorithm>

namespace weir::policy {
namespace {

// Calls `use` with each method a match names, or with "" where it takes any.
template <class Use>
void each_method(const Match& match, Use use) {
  if (match.methods.empty()) use(std::string());
  for (const std::string& method : match.methods) use(method);
}

std::string described(const Match& match, const std::string& method) {
  std::string out = method.empty() ? "any method" : method;
  if (!match.host.empty()) out += " " + match.host;
  if (!match.path.empty()) out += " " + match.path + (match.prefix ? "*" : "");
  return out;
}

}  // namespace

std::shared_ptr<const Matcher> Matcher::build(const Model& model) {
  auto out = std::make_shared<Matcher>();
  out->domains_ = NameTable(model.domains.size());
  for (std::uint32_t i = 0; i < model.domains.size(); ++i)
    out->domains_.add(model.domains[i].name, i);
  out->names_ = NameTable(model.routes.size());
  for (std::uint32_t i = 0; i < model.routes.size(); ++i) {
    const Route& route = model.routes[i];
    out->names_.add(route.name, i);
    for (const Match& match : route.matches)
      insert(match.host.empty() ? out->any_host_ : out->hosts_[match.host], match, i);
  }
  return out;
}

void Matcher::insert(Host& host, const Match& match, std::uint32_t route) {
  Entries* entries = &host.any;
  if (match.prefix) {
    const bool within = match.path.ends_with('/');
    std::string key = match.path;
    if (within) key.pop_back();
    auto at = std::find_if(host.prefixes.begin(), host.prefixes.end(),
                           [&](const Prefixes& other) { return other.length <= key.size(); });
    if (at == host.prefixes.end() || at->length != key.size())
      at = host.prefixes.insert(at, Prefixes{.length = key.size(), .within = {}, .begins = {}});
    entries = within ? &at->within[key] : &at->begins[key];
  } else if (!match.path.empty()) {
    entries = &host.exact[match.path];
  }
  each_method(match, [&](const std::string& method) {
    const Entry entry{method, route};
    if (method.empty())
      entries->push_back(entry);
    else
      entries->insert(entries->begin(), entry);
  });
}

std::optional<std::uint32_t> Matcher::pick(const Entries& entries, std::string_view method) {
  for (const Entry& entry : entries)
    if (entry.method.empty() || entry.method == method) return entry.route;
  return std::nullopt;
}

std::optional<std::uint32_t> Matcher::pick(const TextMap<Entries>& table, std::string_view path,
                                           std::string_view method) {
  if (table.empty()) return std::nullopt;
  const auto found = table.find(path);
  return found == table.end() ? std::nullopt : pick(found->second, method);
}

std::optional<std::uint32_t> Matcher::search(const Host& host, std::string_view method,
                                             std::string_view path) {
  if (const auto found = pick(host.exact, path, method)) return found;
  for (const Prefixes& prefixes : host.prefixes) {
    if (prefixes.length > path.size()) continue;
    const std::string_view begin = path.substr(0, prefixes.length);
    if (prefixes.length == path.size() || path[prefixes.length] == '/')
      if (const auto found = pick(prefixes.within, begin, method)) return found;
    if (const auto found = pick(prefixes.begins, begin, method)) return found;
  }
  return pick(host.any, method);
}

std::optional<std::uint32_t> Matcher::by_request(std::string_view method, std::string_view host,
                                                 std::string_view path) const noexcept {
  if (!hosts_.empty()) {
    const auto named = hosts_.find(host);
    if (named != hosts_.end())
      if (const auto found = search(named->second, method, path)) return found;
  }
  return search(any_host_, method, path);
}

std::vector<MatchConflict> find_conflicts(const std::vector<Route>& routes) {
  std::vector<MatchConflict> out;
  TextMap<std::size_t> seen;
  for (std::size_t i = 0; i < routes.size(); ++i)
    for (const Match& match : routes[i].matches)
      each_method(match, [&](const std::string& method) {
        const auto [first, fresh] = seen.emplace(
            method + "\n" + match.host + "\n" + match.path + (match.prefix ? "*" : ""), i);
        if (!fresh) out.push_back({first->second, i, match.place, described(match, method)});
      });
  return out;
}

}  // namespace weir::policy
