#include "policy/envoy/read_domain.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "policy/envoy/metadata.h"
#include "policy/envoy/read_rate_limit.h"
#include "policy/field_reader.h"
#include "policy/read_route.h"

namespace weir::policy {
namespace {

constexpr std::size_t kMaxTextBytes = 1'024;

// Where the walk stands: below which descriptor, and what holds there.
struct Position {
  std::uint32_t node = 0;
  std::uint32_t scope = 0;
  bool calendar = false;
  std::string path;  // "key1_value1.subkey1"
  std::vector<DescriptorLevel> levels;
};

class DomainReader {
 public:
  DomainReader(Domain& domain, FaultList& faults) : domain_(domain), faults_(faults) {}

  void read_root(const Value& root) {
    MapReader map(faults_, root, "a domain's file",
                  {"domain", "descriptors", "protects", "when_store_fails", "ceiling", "overspend",
                   "calendar"},
                  kEnvoyFields);
    if (!map.is_map()) return;
    const auto name = map.get("domain");
    if (name) {
      domain_.name = read_text(faults_, *name).value_or("");
      check_length(*name);
    }
    if (domain_.name.empty() && !name)
      faults_.add_silent(*root.node, "domain", "is missing or empty", "domain: its name");
    Position position{.scope = static_cast<std::uint32_t>(domain_.scopes.size())};
    DomainScope& scope = domain_.scopes.emplace_back();
    scope.ceiling_scope = position.scope;
    scope.route.name = domain_.name;
    scope.route.place = place_of(*root.node);
    read_scope(map, position);
    if (const auto list = map.get("descriptors")) read_list_of(*list, position);
    check_scope(map, position.scope);
  }

 private:
  Place place_of(const YamlNode& node) const {
    return {.file = faults_.file(), .line = node.line, .column = node.column};
  }

  void check_length(const Value& at) {
    if (at.node->text.size() > kMaxTextBytes)
      faults_.add(*at.node, at.path, "is too long",
                  "at most " + std::to_string(kMaxTextBytes) + " bytes");
  }

  static bool says_something(const MapReader& map) {
    return map.has("protects") || map.has("when_store_fails") || map.has("ceiling") ||
           map.has("overspend");
  }

  // Reads Weir's own fields into the scope that the position is in.
  void read_scope(MapReader& map, Position& position) {
    if (const auto value = map.get("calendar"))
      position.calendar = read_bool(faults_, *value).value_or(position.calendar);
    DomainScope& scope = domain_.scopes[position.scope];
    if (map.has("protects") || map.has("when_store_fails")) {
      scope.route.protects.reset();
      scope.route.failure_policy_given = false;
      scope.decided = true;
    }
    if (map.has("ceiling")) scope.ceiling_scope = position.scope;
    read_failure_policy(faults_, map, scope.route);
  }

  // A descriptor with fields of ours begins a scope of its own, which has what it does not say from
  // the one around it.
  void open_scope(MapReader& map, Position& position) {
    if (says_something(map)) {
      DomainScope inner = domain_.scopes[position.scope];
      inner.route.rules.clear();
      inner.route.place = place_of(*map.at().node);
      inner.path = position.path;
      position.scope = static_cast<std::uint32_t>(domain_.scopes.size());
      domain_.scopes.push_back(std::move(inner));
    }
    read_scope(map, position);
  }

  void check_scope(MapReader& map, std::uint32_t scope) {
    if (says_something(map)) check_failure_policy(faults_, map, domain_.scopes[scope].route);
  }

  void read_list_of(const Value& list, const Position& position) {
    for (const Value& item : read_list(faults_, list, kMaxDescriptors, Lone::refused))
      read_descriptor(item, position);
  }

  void read_descriptor(const Value& at, Position position) {
    MapReader map(faults_, at, "a descriptor",
                  {"key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode",
                   "detailed_metric", "value_to_metric", "share_threshold", "metadata", "protects",
                   "when_store_fails", "ceiling", "overspend", "calendar"},
                  kEnvoyFields);
    if (!map.is_map() || !enter(map, position)) return;
    open_scope(map, position);
    read_limit_of(map, position);
    if (const auto list = map.get("descriptors")) read_list_of(*list, position);
    check_scope(map, position.scope);
  }

  // Key and value: steps down into the descriptor.
  bool enter(MapReader& map, Position& position) {
    const auto key = map.get("key");
    const auto text = key ? read_text(faults_, *key) : std::nullopt;
    if (!text) {
      if (!key) faults_.add_silent(*map.at().node, map.at().path, "has no key", "key: its name");
      return false;
    }
    check_length(*key);
    DescriptorLevel level{.key = *text, .value = {}};
    if (const auto value = map.get("value")) {
      if (value->node->is_scalar())
        level.value = value->node->text;
      else
        (void)read_text(faults_, *value);
      check_length(*value);
    }
    level.value_to_metric = flag(map, "value_to_metric");
    level.shares = flag(map, "share_threshold");
    if (level.shares && !Wildcard::is_one(level.value)) {
      faults_.warn(*map.at().node, map.path_of("share_threshold"),
                   "means nothing without a '*' in the value");
      level.shares = false;
    }
    if (position.levels.size() >= kMaxDescriptorDepth) {
      faults_.add(*key->node, key->path, "is nested too deep",
                  "at most " + std::to_string(kMaxDescriptorDepth) + " levels");
      return false;
    }
    return add_node(*key, level, position);
  }

  bool add_node(const Value& key, const DescriptorLevel& level, Position& position) {
    if (domain_.descriptors() >= kMaxDescriptors) {
      if (domain_.descriptors() == kMaxDescriptors && !full_)
        faults_.add_silent(*key.node, key.path, "is one descriptor too many",
                           "at most " + std::to_string(kMaxDescriptors) + " a domain");
      full_ = true;
      return false;
    }
    const auto node = domain_.add(position.node, level.key, level.value);
    const std::string step = level.value.empty() ? level.key : level.key + "_" + level.value;
    if (!node) {
      faults_.add(key.node->line, key.node->column, key.path, step,
                  "stands twice among its neighbours", "each key and value once");
      return false;
    }
    position.node = *node;
    position.path += (position.path.empty() ? "" : ".") + step;
    position.levels.push_back(level);
    return true;
  }

  bool flag(MapReader& map, std::string_view field) {
    const auto value = map.get(field);
    return value && read_envoy_bool(faults_, *value).value_or(false);
  }

  void read_limit_of(MapReader& map, const Position& position) {
    const bool shadow = flag(map, "shadow_mode");
    const bool quota = flag(map, "quota_mode");
    const bool detailed = flag(map, "detailed_metric");
    const auto at = map.get("rate_limit");
    if (!at) return;
    auto said = read_rate_limit(faults_, *at);
    if (!said) return;
    DescriptorLimit& limit = said->limit;
    limit.path = position.path;
    limit.levels = position.levels;
    limit.scope = position.scope;
    limit.shadow = shadow;
    limit.quota = quota;
    limit.detailed_metric = detailed;
    limit.place = place_of(*at->node);
    if (const auto metadata = map.get("metadata")) {
      if (metadata->node->is_map())
        limit.metadata_json = json_of(*metadata->node);
      else
        faults_.add(*metadata->node, metadata->path, "is no map", "a map of anything");
    }
    if (!said->unlimited) {
      auto rule =
          make_domain_rule(faults_, *at, *said, domain_.name, limit.levels, position.calendar);
      if (!rule) return;
      auto& rules = domain_.scopes[position.scope].route.rules;
      limit.rule = static_cast<std::uint32_t>(rules.size());
      rules.push_back(*std::move(rule));
    }
    domain_.set_limit(position.node, std::move(limit));
  }

  Domain& domain_;
  FaultList& faults_;
  bool full_ = false;
};

}  // namespace

std::optional<std::string> domain_of(std::string_view text) {
  FaultList ignored("");
  const auto document = read_yaml(text, ignored, MergeKeys::read);
  if (!document || !document->root->is_map()) return std::nullopt;
  const YamlNode& root = *document->root;
  const YamlNode* domain = root.find("domain");
  if (domain != nullptr) return domain->text;
  if (root.find("descriptors") == nullptr || root.find("routes") != nullptr) return std::nullopt;
  return std::string();
}

void read_domain(std::string_view text, FaultList& faults, Domain& domain) {
  const auto document = read_yaml(text, faults, MergeKeys::read);
  if (!document) return;
  if (document->root->kind == YamlNode::Kind::null) {
    faults.add(0, 0, "", "", "the file is empty", "domain: and descriptors:");
    return;
  }
  domain.files.push_back(faults.file());
  DomainReader(domain, faults).read_root(Value{document->root, ""});
  domain.make_override_identities();
}

void check_domain(const Domain& domain, FaultList& faults) {
  std::unordered_set<std::string_view> names;
  for (const DescriptorLimit& limit : domain.limits) names.insert(limit.name);
  for (const DescriptorLimit& limit : domain.limits)
    for (const std::string& name : limit.replaces)
      if (!names.contains(name))
        faults.warn(limit.place.line, limit.place.column, limit.path,
                    "replaces '" + shown(name) + "', but no limit of the domain has that name");
}

}  // namespace weir::policy
