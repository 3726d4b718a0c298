#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "policy/model.h"
#include "weir/policy.h"

namespace weir::sim {

// The policies that simulated fleets run: two temperaments of breaker and recovery, each under
// three sets of numbers to reload between. All have the same routes.
inline constexpr std::size_t kTemperaments = 2;
inline constexpr std::size_t kNumberSets = 3;
// How many workers this run's fleets have: WEIR_SIM_WORKERS in the environment, or 4.
std::uint32_t fleet_size();
inline const std::uint32_t kWorkers = fleet_size();

// Who asks.
inline constexpr std::array<std::string_view, 2> kUsers{"ann", "bob"};

const Policy& policy(std::size_t temperament, std::size_t numbers);

// A route under one set of numbers.
const policy::Route& route(std::size_t numbers, std::size_t place);
std::size_t routes();
// The route that is kept for a whole outage: no other ask touches it.
std::size_t flood_route();
// Behind it stand those that are metered; of these, one whose requests name themselves, and one
// whose cost is known only when its work is over.
bool is_metered(std::size_t place);
std::size_t named_route();
std::size_t reserved_route();
// Metered, and neither of the two.
bool is_plainly_metered(std::size_t place);

}  // namespace weir::sim
