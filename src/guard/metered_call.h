#pragma once

#include <optional>
#include <string>

#include "weir/reservation.h"

namespace weir::guard {

// What goes with a check of a metered route, besides what every check has; and what comes back with
// its decision. Filled in before the decision is told.
struct MeteredCall {
  std::string idempotency_key;              // empty: none
  std::optional<ReservationTerms> reserve;  // given: the cost is an estimate, to be settled

  std::string reservation;  // empty: nothing was reserved
};

}  // namespace weir::guard
