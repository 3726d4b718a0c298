#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policy/envoy/wildcard.h"
#include "policy/route.h"

namespace weir::policy {

// Deepest descriptor that a file may hold; requests with more entries meet no limit.
inline constexpr std::size_t kMaxDescriptorDepth = 12;
inline constexpr std::size_t kMaxDescriptors = 200'000;  // of one domain

// One level of the way to a limit.
struct DescriptorLevel {
  std::string key;
  std::string value;    // as configured; empty: any
  bool shares = false;  // all values that fit the pattern are one counter
  bool value_to_metric = false;
};

// A limit of a descriptor, with all that a rate limit service says of it.
struct DescriptorLimit {
  std::string path;  // "key1_value1.subkey1", for people and metrics
  std::vector<DescriptorLevel> levels;
  std::uint32_t scope = 0;            // place in Domain::scopes
  std::optional<std::uint32_t> rule;  // place in that scope's rules; absent: unlimited
  std::string name;                   // of the limit; may be empty
  std::vector<std::string> replaces;  // names of limits that this one puts out of force
  std::uint32_t requests_per_unit = 0;
  PeriodUnit unit = PeriodUnit::second;
  std::uint32_t unit_multiplier = 1;
  bool shadow = false;
  bool quota = false;
  bool detailed_metric = false;
  std::string metadata_json;  // an object; empty: none
  Place place;

  bool unlimited() const { return !rule; }
};

// A part of a domain under one failure policy: the root, and every descriptor that says something
// of its own. Its route holds the rules below it, but for those in scopes further down.
struct DomainScope {
  Route route;                      // named as the domain
  std::string path;                 // of its descriptor; empty: the root
  std::uint32_t ceiling_scope = 0;  // whose ceiling its own is: one cap over all below that
  bool decided = false;             // the file says what happens without the store
};

// A domain of Envoy's rate limit service: descriptors, nested by the entries of a request.
//
// Threads:     immutable once read.
class Domain {
 public:
  std::string name;
  std::vector<std::string> files;
  std::vector<DomainScope> scopes;  // the first is the root's
  std::vector<DescriptorLimit> limits;

  // The limit that a request's entries meet; null: none.
  //
  // Guarantees:  at each level a descriptor of that very value comes before the first wildcard, in
  //              file order, that fits, and that before one without a value; there is no way back
  //              up. A limit holds only where it stands at the last entry.
  // Cost:        a hash or two an entry, and the wildcards of its key. No allocation.
  template <class Entries>
  const DescriptorLimit* find(const Entries& entries) const noexcept {
    std::uint32_t node = 0;
    for (const auto& entry : entries) {
      const std::optional<std::uint32_t> next = child(node, entry.key, entry.value);
      if (!next) return nullptr;
      node = *next;
    }
    const std::optional<std::uint32_t> limit = nodes_[node].limit;
    return limit ? &limits[*limit] : nullptr;
  }

  // One step of it, for those who explain it. The root is node 0.
  std::optional<std::uint32_t> child(std::uint32_t node, std::string_view key,
                                     std::string_view value) const noexcept;
  std::optional<std::uint32_t> limit_of(std::uint32_t node) const { return nodes_[node].limit; }
  // What stands below a node: "key", "key_value", in the file's order.
  std::vector<std::string> children(std::uint32_t node) const;
  // What would have fitted too, in the order in which it is looked at, had it not come after the
  // step that was made: as way_to() says it. Empty: nothing.
  std::vector<std::string> passed_over(std::uint32_t node, std::string_view key,
                                       std::string_view value) const;
  // How that step was made: "value", "wildcard foo*", "any value".
  std::string way_to(std::uint32_t node) const;

  // Adds a descriptor below a node. `value` may be empty or a wildcard.
  // Errors:      absent: that key and value stand there already.
  std::optional<std::uint32_t> add(std::uint32_t node, const std::string& key,
                                   const std::string& value);
  void set_limit(std::uint32_t node, DescriptorLimit limit);
  std::size_t descriptors() const { return nodes_.size() - 1; }

  // The identity of counters for limits that requests bring along, one for each unit.
  std::uint64_t override_identity(PeriodUnit unit) const {
    return override_identities_[static_cast<std::size_t>(unit)];
  }
  void make_override_identities();

 private:
  struct KeyValue {
    std::string key;
    std::string value;
  };
  struct KeyValueView {
    std::string_view key;
    std::string_view value;
  };
  struct KeyValueHash {
    using is_transparent = void;
    static std::size_t mix(std::string_view key, std::string_view value) noexcept {
      return std::hash<std::string_view>{}(key)*31 + std::hash<std::string_view>{}(value);
    }
    std::size_t operator()(const KeyValue& x) const noexcept { return mix(x.key, x.value); }
    std::size_t operator()(const KeyValueView& x) const noexcept { return mix(x.key, x.value); }
  };
  struct KeyValueEqual {
    using is_transparent = void;
    template <class A, class B>
    bool operator()(const A& a, const B& b) const noexcept {
      return a.key == b.key && a.value == b.value;
    }
  };
  struct Node {
    std::optional<std::uint32_t> limit;
    std::string key;
    std::string value;  // as configured
    std::vector<std::uint32_t> children;
    std::unordered_map<KeyValue, std::uint32_t, KeyValueHash, KeyValueEqual> exact;
    TextMap<std::vector<std::pair<Wildcard, std::uint32_t>>> wild;
    TextMap<std::uint32_t> any;
  };

  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::uint64_t override_identities_[8] = {};
};

}  // namespace weir::policy
