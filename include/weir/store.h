#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "weir/clock.h"
#include "weir/limits.h"

namespace weir {

// One counter that a Store of one's own is asked about.
struct CounterRequest {
  std::string_view rule;  // its name
  std::string_view key;   // rule and values, encoded so that no two counters share one; any bytes
  Algorithm algorithm = Algorithm::gcra;
  std::uint64_t limit = 0;
  std::uint64_t burst = 0;
  Nanos period{0};         // of calendar months and years the usual length: 30 and 365 days
  std::uint64_t cost = 1;  // 0: a probe, which must not charge
};

struct CounterAnswer {
  bool fits = false;
  std::optional<std::uint64_t> remaining;
  std::optional<Nanos> retry_after;
};

// A store of the caller's own, asked in the caller's thread.
//
// Requires:    decide() treats the counters as one step: where one does not fit, none is charged.
//              It answers in bounded time and does not throw. false means "could not decide": the
//              route's failure policy holds then.
// Threads:     called from any number of threads at once.
class Store {
 public:
  virtual ~Store() = default;
  [[nodiscard]] virtual bool decide(std::span<const CounterRequest> counters, Instant now,
                                    std::span<CounterAnswer> answers) noexcept = 0;

  // Ships with the library: everything fits, nothing fits.
  static std::unique_ptr<Store> allow_all();
  static std::unique_ptr<Store> deny_all();
};

}  // namespace weir
