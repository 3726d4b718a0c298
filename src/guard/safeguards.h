#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/key_digest.h"
#include "guard/plan.h"
#include "policy/model.h"
#include "render/exposition.h"
#include "weir/breaker_registry.h"
#include "weir/concurrency.h"

namespace weir::guard {

// The breakers and concurrency limits of a policy.
//
// Guarantees:  a reload keeps the state of whatever stays; a breaker with another window, and a
// limit
//              that counts by other sources, begin anew.
// Threads:     any.
class Safeguards {
 public:
  // One entry of `concurrency:`.
  struct Limit {
    std::vector<policy::Source> by;
    KeyedConcurrency all;
  };

  Safeguards(const policy::Model& model, Clock& clock, BreakerListener listener);

  void apply(const policy::Model& model);

  // Errors:      not_found, with the names that there are.
  Result<Breaker> breaker(std::string_view name) const;
  Result<std::shared_ptr<Limit>> limit(std::string_view name) const;
  // Which of a limit's counters these values are.
  static std::string key(const Limit& limit, const Values& values, const ValueDigester& digester);

  std::vector<BreakerSnapshot> breakers() const;
  std::vector<ConcurrencySnapshot> limits() const;
  void write_metrics(render::Exposition& out) const;

 private:
  Clock& clock_;
  BreakerRegistry breakers_;
  mutable std::shared_mutex mutex_;
  std::map<std::string, std::shared_ptr<Limit>, std::less<>> limits_;
};

}  // namespace weir::guard
