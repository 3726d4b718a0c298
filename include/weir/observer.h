#pragma once

#include <cstdint>
#include <string_view>

#include "weir/decision.h"

namespace weir {

// Hears what a Guard does. Called in the caller's thread, after the decision, outside every lock;
// must not block.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_decision(const Decision& decision) { (void)decision; }
  virtual void on_policy_loaded(std::uint64_t generation) { (void)generation; }
  virtual void on_policy_rejected(std::string_view faults) { (void)faults; }
};

}  // namespace weir
