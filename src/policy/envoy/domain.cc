#include "policy/envoy/domain.h"

#include "policy/identity.h"

namespace weir::policy {

std::optional<std::uint32_t> Domain::child(std::uint32_t node, std::string_view key,
                                           std::string_view value) const noexcept {
  const Node& at = nodes_[node];
  if (!at.exact.empty()) {
    const auto exact = at.exact.find(KeyValueView{key, value});
    if (exact != at.exact.end()) return exact->second;
  }
  if (!at.wild.empty()) {
    const auto wild = at.wild.find(key);
    if (wild != at.wild.end())
      for (const auto& [pattern, next] : wild->second)
        if (pattern.fits(value)) return next;
  }
  const auto any = at.any.find(key);
  if (any != at.any.end()) return any->second;
  return std::nullopt;
}

std::vector<std::string> Domain::passed_over(std::uint32_t node, std::string_view key,
                                             std::string_view value) const {
  const Node& at = nodes_[node];
  std::vector<std::string> out;
  const auto made = child(node, key, value);
  const auto look_at = [&](std::uint32_t next) {
    if (next != made) out.push_back(way_to(next));
  };
  if (const auto wild = at.wild.find(key); wild != at.wild.end()) {
    for (const auto& [pattern, next] : wild->second)
      if (pattern.fits(value)) look_at(next);
  }
  if (const auto any = at.any.find(key); any != at.any.end()) look_at(any->second);
  return out;
}

std::string Domain::way_to(std::uint32_t node) const {
  const std::string& value = nodes_[node].value;
  if (value.empty()) return "any value";
  return (Wildcard::is_one(value) ? "the wildcard " : "the value ") + value;
}

std::vector<std::string> Domain::children(std::uint32_t node) const {
  std::vector<std::string> out;
  for (const std::uint32_t child : nodes_[node].children) {
    const Node& at = nodes_[child];
    out.push_back(at.value.empty() ? at.key : at.key + "_" + at.value);
  }
  return out;
}

std::optional<std::uint32_t> Domain::add(std::uint32_t node, const std::string& key,
                                         const std::string& value) {
  const auto next = static_cast<std::uint32_t>(nodes_.size());
  Node& at = nodes_[node];
  if (value.empty()) {
    if (!at.any.emplace(key, next).second) return std::nullopt;
  } else if (Wildcard::is_one(value)) {
    auto& patterns = at.wild[key];
    for (const auto& [pattern, other] : patterns)
      if (pattern.text() == value) return std::nullopt;
    patterns.emplace_back(Wildcard(value), next);
  } else if (!at.exact.emplace(KeyValue{key, value}, next).second) {
    return std::nullopt;
  }
  at.children.push_back(next);
  Node& added = nodes_.emplace_back();
  added.key = key;
  added.value = value;
  return next;
}

void Domain::set_limit(std::uint32_t node, DescriptorLimit limit) {
  nodes_[node].limit = static_cast<std::uint32_t>(limits.size());
  limits.push_back(std::move(limit));
}

void Domain::make_override_identities() {
  for (std::size_t unit = 0; unit < std::size(override_identities_); ++unit) {
    const PeriodSpec per{.unit = static_cast<PeriodUnit>(unit)};
    override_identities_[unit] = identity_hash(
        "override of " + identity_text(Owner::domain, name, {}, per, Algorithm::fixed_window));
  }
}

}  // namespace weir::policy
