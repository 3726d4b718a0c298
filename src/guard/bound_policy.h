#pragma once

#include <cstdint>
#include <map>
#include <mutex>
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
#include "weir/policy.h"

namespace weir::guard {

// A rule of the policy in force, with a name that outlives it.
struct BoundRule {
  const policy::Rule* rule = nullptr;
  std::string_view name;
  std::vector<std::string_view> sources;  // of Rule::by, as callers give them; they outlive it, too
  bool shadow = false;                    // the rule's or its route's
};

struct BoundRoute {
  const policy::Route* route = nullptr;
  std::string_view name;
  std::vector<BoundRule> rules;
  std::uint32_t slot = 0;              // place in the model's routes
  std::uint32_t metrics = 0;           // place of its counters
  ladder::Ceiling* ceiling = nullptr;  // its cap in this process, kept across reloads
};

// A policy made ready for the way of a request: looked up by name without allocation, immutable
// once built.
class BoundPolicy {
 public:
  // Requires: `names` outlives every decision made with this.
  BoundPolicy(Policy policy, std::uint64_t generation, NamePool& names, render::Metrics& metrics,
              Ceilings& ceilings, Instant loaded_at);

  const policy::Model& model() const noexcept { return policy_.model(); }
  const Policy& policy() const noexcept { return policy_; }
  std::uint64_t generation() const noexcept { return generation_; }

  Instant loaded_at() const noexcept { return loaded_at_; }

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
  Policy policy_;
  std::uint64_t generation_;
  Instant loaded_at_;
  std::vector<BoundRoute> routes_;
  BoundDomains domains_;
  const BoundRoute* default_ = nullptr;
  std::unordered_map<std::uint64_t, std::vector<const policy::Rule*>> by_identity_;
};

}  // namespace weir::guard
