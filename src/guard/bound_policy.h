#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/key_digest.h"
#include "base/name_pool.h"
#include "guard/bound_domain.h"
#include "ladder/ceiling.h"
#include "policy/model.h"
#include "render/metrics.h"
#include "store/counter.h"
#include "weir/decision.h"
#include "weir/policy.h"

namespace weir::guard {

// A rule of the policy in force, with a name that outlives it.
struct BoundRule {
  const policy::Rule* rule = nullptr;
  std::string_view name;
  std::vector<std::string_view> sources;  // of Rule::by, as callers give them; they outlive it, too
  bool shadow = false;                    // the rule's or its route's
  RuleReport outline;                     // what is known of a report before the store answers
};

struct BoundRoute {
  const policy::Route* route = nullptr;
  std::string_view name;
  std::vector<BoundRule> rules;
  std::uint32_t slot = 0;              // place in the model's routes
  std::uint32_t metrics = 0;           // place of its counters
  ladder::Ceiling* ceiling = nullptr;  // its cap in this process, kept across reloads
  Instant loaded_at{};                 // of its numbers
};

// A policy made ready for the way of a request: looked up by name without allocation, immutable
// once built.
//
// When a policy was loaded says which numbers hold for a counter that workers know different ones
// of. A reload that brings what was there is no later load: else whoever reloads an unchanged file
// would win against numbers that were changed elsewhere since.
class BoundPolicy {
 public:
  // `before`: the policy that this one replaces; null: none.
  // Requires: `names` outlives every decision made with this.
  BoundPolicy(Policy policy, std::uint64_t generation, NamePool& names, render::Metrics& metrics,
              Ceilings& ceilings, Instant loaded_at, const BoundPolicy* before);

  const policy::Model& model() const noexcept { return policy_.model(); }
  const Policy& policy() const noexcept { return policy_; }
  std::uint64_t generation() const noexcept { return generation_; }

  // When the numbers of these rules were loaded, of which some may be gone: of several the latest.
  Instant loaded_at(std::span<const store::Counter> counters) const noexcept;
  Instant loaded_at(std::uint64_t identity) const noexcept;

  // The route of that name, else the default one, else null.
  const BoundRoute* find(std::string_view name) const noexcept;
  const BoundRoute& at(std::size_t slot) const noexcept { return routes_[slot]; }
  const std::vector<BoundRoute>& routes() const noexcept { return routes_; }
  // The domains of Envoy-style files.
  const BoundDomains& domains() const noexcept { return domains_; }

  // The numbers that a charge was made under, or, where a reload replaced them, those its rule has
  // now; null where the rule is gone. Rules of a domain share an identity where they differ in
  // their value alone: then the stamp tells them apart.
  const limit::Numbers* numbers_of(std::uint64_t identity, std::uint32_t stamp) const noexcept;

 private:
  // The rules of one identity.
  struct Rules {
    std::vector<const policy::Rule*> all;
    Instant loaded_at{};
  };
  std::optional<Instant> loaded_before(std::uint64_t identity, const Rules& rules) const noexcept;

  Policy policy_;
  std::uint64_t generation_;
  Instant loaded_at_;
  std::vector<BoundRoute> routes_;
  BoundDomains domains_;
  const BoundRoute* default_ = nullptr;
  std::unordered_map<std::uint64_t, Rules> by_identity_;
};

}  // namespace weir::guard
