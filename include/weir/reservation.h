#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "weir/decision.h"
#include "weir/guard.h"
#include "weir/on_expiry.h"
#include "weir/result.h"

namespace weir {

// When a reservation ends by itself, and how. What is not said is so as the policy's route says it
// (`reservations`); where neither does, nothing is reserved: there is no right default for somebody
// else's bill.
struct ReservationTerms {
  // From one second to a day, from the reservation or its last heartbeat on; 0: not said.
  Nanos expire{};
  std::optional<OnExpiry> on_expiry = std::nullopt;
};

struct Reservation {
  // What reserving the estimate came to.
  Decision decision;
  // Names what is to be settled; empty where it was not allowed.
  std::string id;
};

// What settling a reservation came to.
struct Settlement {
  std::uint64_t reserved = 0;
  std::uint64_t units = 0;      // what is recorded, and billed
  std::uint64_t overdraft = 0;  // of these, those beyond what was reserved
  bool repeated = false;        // it was settled before, as many units: nothing was done
};

// Most reservations of a process that are not settled; more are refused.
inline constexpr std::size_t kMaxReservations = 65'536;

// Work on metered routes whose cost is known only afterwards: reserve an estimate, settle what it
// used. A reservation is charged to the limits at once and is on the bill when it is settled, or
// when it expires.
//
// Guarantees:  each reservation is billed once, however often it is settled and wherever the
//              process stops: it is in the journal, and its next start goes on with it.
// Requires:    the Guard outlives this, and stays where it is.
// Threads:     any.
class Reservations {
 public:
  explicit Reservations(Guard& guard) : guard_(guard) {}

  // As Guard::check() of the estimate, durable before this returns. Refused as invalid_request
  // where the route is not metered, or no journal records its usage, or the terms are out of range
  // or nobody says them: Decision::fault says which.
  Reservation reserve(std::string_view route, std::span<const Descriptor> descriptors,
                      std::uint64_t estimate, ReservationTerms terms);
  Reservation reserve(std::string_view route, std::initializer_list<Descriptor> descriptors,
                      std::uint64_t estimate, ReservationTerms terms) {
    return reserve(route, std::span(descriptors.begin(), descriptors.size()), estimate, terms);
  }
  // As Guard::check_async().
  void reserve_async(std::string_view route, std::span<const Descriptor> descriptors,
                     std::uint64_t estimate, ReservationTerms terms,
                     std::function<void(Reservation)> done);

  // Records what the work used, durable before this returns. What was reserved beyond it goes back
  // to the limits; what it used beyond what was reserved is taken from what the limits have left,
  // and recorded as overspent where that is too little.
  //
  // Errors:      not_found: this process has no such reservation; failed_precondition: it was
  //              settled, or expired, as another number of units; unavailable: the disk takes
  //              nothing now, or somebody else settles it this moment, and the reservation stands;
  //              invalid_argument: `units` is past kMaxUnits.
  Result<Settlement> settle(std::string_view reservation, std::uint64_t units);
  // `done` is called once, in any thread, perhaps before this returns, and must not block.
  void settle_async(std::string_view reservation, std::uint64_t units,
                    std::function<void(Result<Settlement>)> done);

  // Says that the work goes on, and what it used so far. Returns when the reservation now expires.
  //
  // Errors:      not_found, failed_precondition, invalid_argument: as settle(); unavailable: it
  //              could not be kept.
  Result<Nanos> heartbeat(std::string_view reservation, std::uint64_t so_far);

 private:
  Guard& guard_;
};

}  // namespace weir
