#include <string>

#include "policy/duration.h"
#include "weir/concurrency.h"

namespace weir {

std::vector<ConfigFault> check_concurrency_config(const ConcurrencyConfig& config) {
  using namespace std::chrono_literals;
  using policy::to_text;
  std::vector<ConfigFault> faults;
  const auto time = [&](std::string_view field, Nanos value, Nanos least, Nanos most) {
    if (value >= least && value <= most) return;
    faults.push_back({.field = field,
                      .value = to_text(value),
                      .problem = value < least ? "is too short" : "is too long",
                      .allowed = to_text(least) + " to " + to_text(most)});
  };
  if (config.limit < 1 || config.limit > 1'000'000)
    faults.push_back({.field = "limit",
                      .value = std::to_string(config.limit),
                      .problem = config.limit == 0 ? "lets nothing through" : "is too large",
                      .allowed = "1 to 1000000"});
  time("lease", config.lease, 100ms, 1h);
  time("max_hold", config.max_hold, 100ms, 24h);
  if (config.max_hold < config.lease)
    faults.push_back({.field = "max_hold",
                      .value = to_text(config.max_hold),
                      .problem = "is less than lease of " + to_text(config.lease),
                      .allowed = "at least lease"});
  if (config.max_waiting > 100'000)
    faults.push_back({.field = "max_waiting",
                      .value = std::to_string(config.max_waiting),
                      .problem = "is too large",
                      .allowed = "0 to 100000"});
  return faults;
}

}  // namespace weir
