#pragma once

#include <cstdint>
#include <string>

#include "guard/fleet_seat.h"
#include "policy/model.h"

namespace weir::guard {

// The seat that the policy gives this process; `random` tells it from others.
FleetSeat::Options seat_options(const policy::Model& model, FleetRole role, std::uint64_t random);

// The name of a worker whose policy gives it none: its host and state folder, which a restart
// finds again; without a folder the host and a number that no other process has.
std::string worker_name(const std::string& host, const std::string& state, std::uint64_t random);

}  // namespace weir::guard
