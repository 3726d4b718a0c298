#include "policy/envoy/name_trial.h"

#include <set>
#include <string_view>

#include "policy/envoy/counter_name.h"
#include "policy/model.h"

namespace weir::policy {
namespace {

// Where a descriptor takes any value.
constexpr std::string_view kAnyValue = "weir-self-test";

struct Entry {
  std::string_view key;
  std::string_view value;
};

std::string name_below(std::string_view prefix, const Domain& domain,
                       const DescriptorLimit& limit) {
  std::vector<Entry> entries;
  for (const DescriptorLevel& level : limit.levels)
    entries.push_back({level.key, level.value.empty() ? kAnyValue : level.value});
  std::string name(counter_name_size(prefix, domain.name, entries, &limit), '\0');
  write_counter_name(prefix, domain.name, entries, &limit, name.data());
  return name + '0';
}

}  // namespace

std::vector<NameTrial> name_trials(const Model& model) {
  std::vector<NameTrial> trials;
  if (!model.rls.envoyproxy_prefix) return trials;
  const std::string& prefix = *model.rls.envoyproxy_prefix;
  for (const Domain& domain : model.domains) {
    std::set<std::string_view> seen;
    for (const DescriptorLimit& limit : domain.limits) {
      if (trials.size() >= kMostNameTrials) return trials;
      if (!limit.rule || limit.levels.empty() || !seen.insert(limit.levels[0].key).second) continue;
      trials.push_back({name_below(prefix, domain, limit), prefix + domain.name + '_'});
    }
  }
  return trials;
}

}  // namespace weir::policy
