#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "drill/run/tally.h"
#include "policy/period.h"
#include "weir/clock.h"

namespace weir::drill {

// A limit as an API's owner states it: so many in a period.
struct StatedLimit {
  std::uint64_t units = 0;
  Nanos period{0};

  // The most that any limiter of this limit admits to one key in a time, whatever its windows.
  std::uint64_t most_in(Nanos time) const noexcept;
};

// What an API did in a phase, as its clients saw it.
enum class Conduct : std::uint8_t {
  limits,    // as it is meant to: who keeps to the limit passes, who does not is held to it
  open,      // everybody passes
  admits,    // who keeps to the limit passes; whether others are held to it could not be seen
  closed,    // nobody passes: 503
  as_limit,  // nobody passes: 429, as if they had asked too often
  errors,    // another 5xx
  other,     // another status
  hangs,     // no answer in time
  cut,       // no connection, or none that lasts
  mixed,     // no one thing for most
};
std::string_view to_string(Conduct conduct);

struct Judgement {
  Conduct conduct = Conduct::mixed;
  Nanos typical{0};   // how long a call took that went so
  std::string words;  // "fails open after 10.2 s a request"
};

// What clients of one phase saw, and what they see when nothing is the matter.
struct PhaseSeen {
  const Tally& steady;  // clients that keep to the limit
  const Tally& hostile;
  const Tally& calm;  // steady clients of the first phase
  Nanos length{0};
  bool is_calm = false;     // the phase is without faults
  bool store_gone = false;  // in it the store cannot answer at all, rather than late
  bool limit_seen = false;  // in the first phase the limit was seen at work
};

// Guarantees:  pure; the same calls, the same words.
Judgement judge(const PhaseSeen& seen, const StatedLimit& limit);

}  // namespace weir::drill
