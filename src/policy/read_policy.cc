#include "policy/read_policy.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <unordered_map>

#include "policy/address.h"
#include "policy/field_reader.h"
#include "policy/match.h"
#include "policy/read_journal.h"
#include "policy/read_route.h"
#include "policy/read_safeguards.h"
#include "policy/read_store.h"
#include "policy/rule_draft.h"
#include "weir/decision.h"

namespace weir::policy {
namespace {

constexpr std::size_t kMaxKeyPrefix = 256;

void read_inputs(FaultList& faults, const Value& at, Model& model) {
  for (const Value& item : read_list(faults, at, kMaxInputs, Lone::refused)) {
    const auto name = read_text(faults, item);
    if (!name) continue;
    if (!is_input_name(*name))
      faults.add(*item.node, item.path, "cannot name an input",
                 "letters, digits, '_', '-' and '.', begun by a letter; not ip, path or method");
    else if (std::find(model.inputs.begin(), model.inputs.end(), *name) != model.inputs.end())
      faults.add(*item.node, item.path, "stands twice", "each input once");
    else
      model.inputs.push_back(*name);
  }
}

void read_trusted_proxies(FaultList& faults, const Value& at, Model& model) {
  for (const Value& item : read_list(faults, at, kMaxTrustedProxies, Lone::refused)) {
    const auto text = read_text(faults, item);
    if (!text) continue;
    if (const auto block = parse_cidr(*text)) {
      model.trusted_proxies.push_back(*block);
      continue;
    }
    const auto meant = network_of(*text);
    faults.add(*item.node, item.path,
               meant ? "has bits after its prefix" : "is no address and no block of them",
               meant ? to_text(*meant) : "an address, or a block such as 10.0.0.0/8");
  }
}

void read_headers(FaultList& faults, const Value& at, Model& model) {
  model.header_profiles = 0;
  model.header_profiles_given = true;
  for (const Value& item : read_list(faults, at, 8, Lone::is_a_list_of_one)) {
    const auto profile = read_choice<HeaderProfile>(
        faults, item,
        {{"draft10", kHeadersDraft10}, {"delta", kHeadersDelta}, {"epoch", kHeadersEpoch}});
    if (!profile) continue;
    if ((model.header_profiles & *profile) != 0)
      faults.add(*item.node, item.path, "stands twice", "each profile once");
    model.header_profiles = static_cast<std::uint8_t>(model.header_profiles | *profile);
  }
}

void read_routes(FaultList& faults, const Value& at, Model& model) {
  if (!at.node->is_map()) {
    faults.add(*at.node, at.path, "is no map of routes", "NAME: {limits: [...], protects: ...}");
    return;
  }
  if (at.node->fields.size() > kMaxRoutes) {
    faults.add(*at.node, at.path, "has " + std::to_string(at.node->fields.size()) + " routes",
               "at most " + std::to_string(kMaxRoutes));
    return;
  }
  const RouteScope scope{
      .faults = faults, .inputs = model.inputs, .ipv6_prefix = model.ipv6_prefix};
  for (const auto& [key, node] : at.node->fields) {
    const std::string path = joined(at.path, key->text);
    if (!is_route_name(key->text))
      faults.add(*key, path, "cannot name a route",
                 "1 to 128 letters, digits, and any of \"_-.:/\"");
    else if (node->kind == YamlNode::Kind::null)
      faults.add_silent(*key, path, "has no value", "limits: and what they protect");
    else
      model.routes.push_back(read_route(scope, key->text, Value{node, path}));
  }
}

// Whose names the counters of domains have in the store.
void read_keys(FaultList& faults, MapReader& map, RlsSpec& out) {
  const auto keys = map.get("keys");
  const auto prefix = map.get("key_prefix");
  const bool theirs =
      keys &&
      read_choice<bool>(faults, *keys, {{"weir", false}, {"envoyproxy", true}}).value_or(false);
  if (theirs) out.envoyproxy_prefix = "";
  if (!prefix) return;
  if (!theirs) {
    faults.add_silent(*prefix->node, prefix->path, "is of no use without keys: envoyproxy",
                      "keys: envoyproxy beside it; `store.prefix` begins Weir's own keys");
    return;
  }
  out.envoyproxy_prefix = read_text(faults, *prefix).value_or("");
  if (out.envoyproxy_prefix->size() > kMaxKeyPrefix)
    faults.add(*prefix->node, prefix->path, "is too long",
               "at most " + std::to_string(kMaxKeyPrefix) + " bytes, as CACHE_KEY_PREFIX there");
}

RlsSpec read_rls(FaultList& faults, const Value& at) {
  RlsSpec out;
  MapReader map(
      faults, at, "rls",
      {"config", "protects", "rls_refusal", "merge_domains", "count_denied", "keys", "key_prefix"});
  if (const auto value = map.get("config")) out.config = read_text(faults, *value).value_or("");
  if (const auto value = map.get("protects"))
    out.protects = read_choice<Protects>(faults, *value,
                                         {{"security", Protects::security},
                                          {"side_effects", Protects::side_effects},
                                          {"capacity", Protects::capacity},
                                          {"revenue", Protects::revenue},
                                          {"nothing", Protects::nothing}});
  if (const auto value = map.get("rls_refusal"))
    out.refusal_is_error =
        read_choice<bool>(faults, *value, {{"over_limit", false}, {"unavailable", true}})
            .value_or(false);
  if (const auto value = map.get("merge_domains"))
    out.merge_domains = read_bool(faults, *value).value_or(false);
  if (const auto value = map.get("count_denied"))
    out.count_denied = read_bool(faults, *value).value_or(false);
  read_keys(faults, map, out);
  return out;
}

void read_unmatched(FaultList& faults, MapReader& map, Model& model) {
  if (const auto at = map.get("unmatched")) {
    const auto choice = read_choice<Unmatched>(
        faults, *at, {{"allow", Unmatched::allow}, {"refuse", Unmatched::refuse}});
    model.unmatched_given = choice.has_value();
    model.unmatched = choice.value_or(Unmatched::allow);
    return;
  }
  if (map.has("unmatched")) return;
  for (const Route& route : model.routes) {
    if (route.matches.empty()) continue;
    faults.add_silent(*map.at().node, "unmatched",
                      "is missing: routes." + route.name +
                          " has a match, so say what becomes of a request that no route matches",
                      "unmatched: allow or refuse");
    return;
  }
}

void read_default(FaultList& faults, MapReader& map, Model& model) {
  const auto at = map.get("default");
  if (!at) return;
  const auto name = read_text(faults, *at);
  if (!name) return;
  model.default_route = *name;
  const YamlNode* routes = map.at().node->find("routes");
  if (routes != nullptr && routes->find(*name) != nullptr) return;
  std::vector<std::string_view> names;
  for (const Route& route : model.routes) names.push_back(route.name);
  const std::string_view meant = nearest(*name, names);
  faults.add(*at->node, at->path,
             "is no route" + (meant.empty() ? "" : "; did you mean '" + std::string(meant) + "'?"),
             "the name of a route of this file");
}

void check_matches(FaultList& faults, const Model& model) {
  for (const MatchConflict& conflict : find_conflicts(model.routes)) {
    const Route& second = model.routes[conflict.second];
    faults.add(conflict.place.line, conflict.place.column, "routes." + second.name + ".match", "",
               conflict.first == conflict.second ? "matches " + conflict.what + " twice"
                                                 : "matches " + conflict.what + ", as routes." +
                                                       model.routes[conflict.first].name + " does",
               "one route for each request");
  }
}

}  // namespace

std::string sha256(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes;
  unsigned size = 0;
  if (EVP_Digest(text.data(), text.size(), bytes.data(), &size, EVP_sha256(), nullptr) != 1)
    return {};
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  for (unsigned i = 0; i < size; ++i) {
    out += kHex[bytes[i] >> 4];
    out += kHex[bytes[i] & 15];
  }
  return out;
}

std::vector<CrossFault> check_across_routes(const std::vector<Route>& routes) {
  std::vector<CrossFault> out;
  std::unordered_map<std::uint64_t, std::pair<const Route*, const Rule*>> seen;
  for (const Route& route : routes) {
    for (const Rule& rule : route.rules) {
      const auto [first, fresh] = seen.emplace(rule.identity, std::pair(&route, &rule));
      if (fresh || first->second.first == &route) continue;  // one route: told apart there
      const Rule& other = *first->second.second;
      const std::string field = "routes." + route.name + ".limits";
      if (other.identity_text != rule.identity_text)
        out.push_back({rule.place, field,
                       "'" + rule.name + "' and '" + other.name + "' have one 64-bit identity",
                       "another name for one of them"});
      else if (other.numbers.stamp != rule.numbers.stamp)
        out.push_back({rule.place, field,
                       "'" + rule.name + "' shares the counter of the rule of that name on line " +
                           std::to_string(other.place.line) + ", but with other numbers",
                       "equal requests and burst, or another name"});
    }
  }
  return out;
}

std::shared_ptr<Model> read_policy(std::string_view text, FaultList& faults) {
  const auto document = read_yaml(text, faults);
  if (!document) return nullptr;
  auto model = std::make_shared<Model>();
  model->header_profiles = kHeadersDraft10;
  model->files = {faults.file()};
  model->text_sha256 = sha256(text);
  const Value root{document->root, ""};
  if (root.node->kind == YamlNode::Kind::null) {
    faults.add(0, 0, "", "", "the file is empty", "routes: at least");
    return nullptr;
  }
  MapReader map(faults, root, "a policy",
                {"store", "inputs", "unmatched", "routes", "default", "trusted_proxies",
                 "ipv6_prefix", "headers", "rls", "journal", "breakers", "concurrency"});
  if (!map.is_map()) return nullptr;
  if (const auto at = map.get("inputs")) read_inputs(faults, *at, *model);
  if (const auto at = map.get("ipv6_prefix"))
    model->ipv6_prefix = static_cast<std::uint8_t>(read_integer(faults, *at, 16, 128).value_or(64));
  if (const auto at = map.get("store")) model->store = read_store(faults, *at);
  if (const auto at = map.get("trusted_proxies")) read_trusted_proxies(faults, *at, *model);
  if (const auto at = map.get("headers")) read_headers(faults, *at, *model);
  if (const auto at = map.get("journal")) model->journal = read_journal(faults, *at);
  if (const auto at = map.get("rls")) model->rls = read_rls(faults, *at);
  if (const auto at = map.get("breakers")) model->breakers = read_breakers(faults, *at);
  if (const auto at = map.get("concurrency"))
    model->concurrency = read_concurrency(faults, *at, model->inputs);
  if (const auto at = map.get("routes"))
    read_routes(faults, *at, *model);
  else if (!map.has("routes") && !map.has("rls") && !map.has("breakers") && !map.has("concurrency"))
    faults.add_silent(*root.node, "", "has no routes", "routes: NAME: {limits: [...], ...}");
  read_unmatched(faults, map, *model);
  read_default(faults, map, *model);
  check_matches(faults, *model);
  for (const CrossFault& fault : check_across_routes(model->routes))
    faults.add(fault.place.line, fault.place.column, fault.field, "", fault.what, fault.allowed);
  return model;
}

}  // namespace weir::policy
