#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "drill/load/histogram.h"
#include "drill/load/http_load.h"

namespace weir::drill {

// How the calls of some stretch went.
struct Tally {
  std::uint64_t calls = 0;
  std::uint64_t allowed = 0;                   // 2xx, 3xx
  std::uint64_t by_itself = 0;                 // of these, without the store; of Weir
  std::uint64_t limited = 0;                   // 429
  std::uint64_t refused = 0;                   // 503
  std::uint64_t errors = 0;                    // any other 5xx
  std::uint64_t other = 0;                     // any other status
  std::uint64_t timed_out = 0;                 // no answer in time
  std::uint64_t cut = 0;                       // refused, or cut off before the answer
  std::map<int, std::uint64_t> statuses;       // of those answered
  std::map<std::string, std::uint64_t> rungs;  // of those answered with one of Weir's verdicts
  Histogram latency;                           // from when the call was due

  void add(const HttpOutcome& outcome);
  void add(const Tally& more);
  std::uint64_t unanswered() const noexcept { return timed_out + cut; }
  std::uint64_t failed() const noexcept { return errors + other + unanswered(); }
};

// What a caller is like.
enum class ClientKind : std::uint8_t {
  steady,    // asks from time to time
  bursty,    // asks as often, eight at once
  retrying,  // asks again, twice, soon after it was turned away
  hostile,   // asks twenty times as often, whatever it is told
};
inline constexpr std::size_t kClientKinds = 4;
std::string_view to_string(ClientKind kind);

}  // namespace weir::drill
