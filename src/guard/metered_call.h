#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "weir/reservation.h"

namespace weir::guard {

// What goes with a check of a metered route, besides what every check has; and what comes back with
// its decision. Filled in before the decision is told.
struct MeteredCall {
  std::string idempotency_key;              // empty: none
  std::optional<ReservationTerms> reserve;  // given: the cost is an estimate, to be settled

  enum class Naming : std::uint8_t {
    fresh,     // the key was not known, or there is none
    replayed,  // the request was admitted before: nothing was charged now
    conflict,  // the key was used for another request: the decision refuses
  };
  Naming naming = Naming::fresh;
  std::string reservation;  // empty: nothing was reserved
};

}  // namespace weir::guard
