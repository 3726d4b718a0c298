#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/model.h"
#include "weir/result.h"

namespace weir::ladder {

// An outage worked out beforehand: how long callers wait, how long a fleet is without its store,
// and the most that it lets in meanwhile.

// Who asks each route, as one supposes: "30 clients at 200 per second". Without a rate: as often as
// they like.
struct Offered {
  std::uint64_t clients = 0;
  std::uint64_t requests = 0;  // of each client in `per`; 0 with `per` 0
  Nanos per{0};
};

inline constexpr std::string_view kOfferedForm =
    "N clients at N per second|minute|hour, as in '30 clients at 200 per second'";

// Errors:      invalid_argument, naming the form.
Result<Offered> parse_offered(std::string_view text);

struct OutageOfRoute {
  std::string name;
  std::optional<std::uint64_t> offered;     // in that time; absent: not known
  std::optional<std::uint64_t> with_store;  // what would be admitted then; absent: not known
  std::optional<std::uint64_t> most;        // admitted without the store; absent: unbounded
};

// What became of the whole if one thing were otherwise.
struct OutageInstead {
  std::string knob;  // "max_cooldown 1s (now 5s)"
  Nanos detection{0};
  Nanos without{0};
  std::optional<std::uint64_t> most;
};

struct OutagePlan {
  Nanos outage{0};
  std::uint32_t workers = 1;   // of each region
  std::uint32_t regions = 1;   // that are all without their stores
  std::uint32_t failures = 0;  // that open the breaker
  Nanos deadline{0};           // what one call waits
  // From the first call that a hung store does not answer until nobody waits for it any more, on
  // each worker. Where the load is not known, the time that `failures` calls take to come is not in
  // it.
  Nanos detection{0};
  bool arrivals_known = false;
  Nanos cooldown{0};  // at most, from the store's first answer until a probe asks
  Nanos ramp{0};      // from then until every key asks again
  std::vector<OutageOfRoute> routes;
  std::optional<std::uint64_t> offered;  // of all routes
  std::optional<std::uint64_t> most;     // absent: unbounded
  std::vector<OutageInstead> instead;    // where it would make a difference

  // How long some key is without the store.
  Nanos without() const noexcept { return outage + cooldown + ramp; }
};

// The longest cooldown that a breaker reaches in an outage, with its jitter.
Nanos cooldown_within(const policy::StoreSpec& store, Nanos outage);

// Guarantees:  what is said to be the most is never exceeded, by the same arithmetic that enforces
//              it; it is what workers admit by themselves, on top of what the store admitted
//              before.
// Of all regions that the policy names together, or of so many as are said to be struck.
OutagePlan plan_outage(const policy::Model& model, std::uint32_t workers, Nanos outage,
                       const std::optional<Offered>& offered, std::string_view route = {},
                       std::optional<std::uint32_t> regions = std::nullopt);

// At most 100 columns; and one line of JSON.
std::string outage_text(const OutagePlan& plan);
std::string outage_json(const OutagePlan& plan);

}  // namespace weir::ladder
