#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/json_reader.h"
#include "weir/breaker.h"
#include "weir/clock.h"
#include "weir/guard.h"
#include "weir/reservation.h"

namespace weir::server::http {

// Reads the bodies of /v1/breaker, /v1/lease, /v1/reserve and /v1/settle, whose members are few and
// differ by what is asked. Strict: an unknown or repeated member, one that this question does not
// take, and a value of another type is a fault. An empty body is an empty object.
//
// Threads:     one at a time; reuse it, it keeps its memory.
class SafeguardBody {
 public:
  enum Member : unsigned {
    kSpread = 1,
    kPermit = 2,
    kOutcome = 4,
    kRetryAfter = 8,
    kOpenFor = 16,
    kDescriptors = 32,
    kWeight = 64,
    kId = 128,
    kMode = 256,
    kBreaker = 512,
    kRoute = 1'024,
    kEstimate = 2'048,
    kExpire = 4'096,
    kOnExpiry = 8'192,
    kReservation = 16'384,
    kUnits = 32'768,
    kBy = 65'536,
    kReason = 131'072,
    kFor = 262'144,
  };

  // `taken`, and `needed` of them. Returns what is wrong, as a sentence that names the field. What
  // is read lives as long as `text` and until the next read().
  std::optional<std::string> read(std::string_view text, unsigned taken, unsigned needed);

  std::optional<std::string_view> spread;
  std::string_view permit;
  Outcome outcome = Outcome::ok;
  std::optional<Nanos> retry_after;
  std::optional<Nanos> open_for;
  std::vector<Descriptor> descriptors;
  std::uint32_t weight = 1;
  std::optional<std::string_view> id;  // needed: given
  BreakerMode mode = BreakerMode::automatic;
  std::string_view breaker;
  std::string_view by;
  std::string_view reason;
  std::optional<Nanos> lasts;  // "for_ms"
  std::string_view route;
  std::uint64_t estimate = 0;
  std::optional<Nanos> expire;
  std::optional<OnExpiry> on_expiry;
  std::string_view reservation;
  std::uint64_t units = 0;

 private:
  bool member(std::string_view key, unsigned taken);
  bool read_member(Member which, std::string_view key);
  bool read_text(std::string_view field, std::string_view& value);
  bool read_number(std::string_view field, std::uint64_t least, std::uint64_t most,
                   std::uint64_t& value);
  bool read_time(std::string_view field, std::optional<Nanos>& value);
  bool read_wait(std::string_view field, std::optional<Nanos>& value);
  bool read_outcome();
  bool read_mode();
  bool read_on_expiry();
  bool read_descriptors();
  bool is(std::string_view field, JsonReader::Kind wanted);
  bool wrong(std::string_view field, std::string_view why);

  JsonReader reader_;
  unsigned seen_ = 0;
  std::string problem_;
};

}  // namespace weir::server::http
