#pragma once

#include <optional>
#include <string>

#include "weir/reservation.h"

namespace weir::guard {

// What goes with a check, besides what every check has, of a metered route for the most part; and
// what comes back with its decision. Filled in before the decision is told.
struct MeteredCall {
  std::string idempotency_key;              // empty: none
  std::optional<ReservationTerms> reserve;  // given: the cost is an estimate, to be settled
  bool late = false;  // reports what was used already: where it does not fit it takes what is left

  std::string reservation;  // empty: nothing was reserved
};

}  // namespace weir::guard
