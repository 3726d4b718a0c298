#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/key_digest.h"
#include "weir/clock.h"
#include "weir/reservation.h"
#include "weir/result.h"

namespace weir::guard {

// A reservation as it is kept, in memory and in the journal.
struct HeldReservation {
  // One limit that it was charged to, by a store that can give back.
  struct Charge {
    std::uint64_t identity = 0;
    std::uint32_t stamp = 0;
    KeyDigest digest;
    Instant receipt{};
    // gcra: the emission interval of the numbers it was charged under, which the receipt goes by;
    // 0: not known.
    std::int64_t interval_ns = 0;
    bool metered = false;
    bool shadow = false;
    std::string key;
    friend bool operator==(const Charge&, const Charge&) = default;
  };

  std::uint64_t reserved = 0;
  std::uint64_t so_far = 0;  // what the last heartbeat said
  std::uint64_t units = 0;   // settled: what was recorded
  bool settled = false;
  bool expired = false;  // settled because nobody did
  ReservationTerms terms;
  Instant expires{};
  std::vector<std::string> events;  // encoded, one a metered rule, of what was reserved
  std::vector<Charge> charges;

  // Of one that is asked of its limits: under which name, so that they are charged once however
  // often they are asked, and since when. Not kept.
  std::string asked_as;
  Instant asked_at{};
};

// As the journal keeps it: numbers of eight bytes, little endian; texts behind their length.
std::string encode(const HeldReservation& held);
// Errors:      invalid_argument: cut short, longer than it says, or of another version.
Result<HeldReservation> decode_reservation(std::string_view bytes);

}  // namespace weir::guard
