#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "weir/clock.h"
#include "weir/result.h"

namespace weir {

// The calls that the rates are taken over: the last so many.
//
// Time:        remembers however long ago they were; a rarely used dependency wants LastTime.
struct LastCalls {
  std::uint32_t calls = 100;  // 1 to 10,000

  friend bool operator==(const LastCalls&, const LastCalls&) = default;
};

// The calls that the rates are taken over: those of the last so long, in buckets that are forgotten
// one by one. What is remembered is between `length` less one bucket, and `length`.
struct LastTime {
  Nanos length{std::chrono::seconds(10)};  // 1 s to 1 h
  std::uint32_t buckets = 10;              // 2 to 60

  friend bool operator==(const LastTime&, const LastTime&) = default;
};

// What an expired probe says: one that was let through and reported nothing by its deadline.
enum class ExpiredProbe : std::uint8_t {
  fails,      // silence is a failure
  is_ignored  // its slot is free again, and nothing was learnt
};

// How the full load comes back after successful probes: in growing parts, each of which must hold.
//
// A step passes when it lasted `step` and its calls stayed under the thresholds; one with no calls
// at all passes after five times as long. A step that fails halves the part, and is a strike.
struct BreakerRamp {
  std::uint32_t start_percent = 10;     // first part of the calls; 1 to 100
  std::uint32_t growth_percent = 150;   // each part of the one before; 101 to 1,000
  Nanos step{std::chrono::seconds(1)};  // at least the dependency's slowest usual call; 1 ms to 1 h
  std::uint32_t minimum_calls = 5;      // that can fail a step before it is over; 1 to 10,000
  std::uint32_t strikes = 3;            // failed steps that open it again; 1 to 100

  friend bool operator==(const BreakerRamp&, const BreakerRamp&) = default;
};

// When a breaker opens, how it tries again, and how it closes. Defaults suit a dependency that is
// called some times a second and answers within a second.
//
// It opens when any rule that is given holds: `consecutive_failures`, `failure_percent`,
// `slow_percent`. check_breaker_config() says what is allowed.
struct BreakerConfig {
  // So many failures in a row, whatever the rates are; 1 to 10,000. Absent: no such rule.
  std::optional<std::uint32_t> consecutive_failures{};
  // So many percent of the window's calls failed, or more; 1 to 100. Absent: no such rule.
  std::optional<std::uint32_t> failure_percent = 50;
  // So many percent of the window's calls were slower than slow_call; 1 to 100. Absent: no such
  // rule. A slow probe, too, is then one that did not succeed.
  std::optional<std::uint32_t> slow_percent{};
  // Needs to be given with slow_percent; 1 us to 1 h. A call that takes exactly as long is not
  // slow.
  std::optional<Nanos> slow_call{};
  std::variant<LastCalls, LastTime> window = LastTime{};
  // The rates say nothing before the window holds so many calls; 1 to 10,000, and at most a
  // LastCalls window.
  std::uint32_t minimum_calls = 20;

  // The first wait before probes; each opening that follows another doubles it, up to
  // max_open_wait. 1 ms to 24 h.
  Nanos open_wait{std::chrono::seconds(5)};
  Nanos max_open_wait{std::chrono::seconds(60)};
  // Each wait is drawn from wait * (1 +- jitter), so that many callers do not probe together. 0 to
  // 50; leave 0 to tests.
  std::uint32_t jitter_percent = 20;
  // Closed for so long, the waits begin at open_wait again; 1 ms to 24 h.
  Nanos forget_after{std::chrono::seconds(60)};
  // A wait that the dependency itself asks for (Retry-After) counts up to this; 1 ms to 24 h.
  Nanos max_retry_after{std::chrono::minutes(5)};

  // Half-open: calls that may be let through and vote, how many of them at once, and how many must
  // succeed. 1 to 1,000; 1 to 100 and at most `probes`; 1 to `probes`.
  // The verdict falls as soon as it is certain.
  std::uint32_t probes = 3;
  std::uint32_t probes_in_flight = 1;
  std::uint32_t probe_successes = 3;
  // A probe that reported nothing for so long gives up its slot; 1 ms to 1 h.
  Nanos probe_deadline{std::chrono::seconds(10)};
  ExpiredProbe expired_probe = ExpiredProbe::fails;
  // Half-open for so long without a verdict opens it again; at least probe_deadline, at most 24 h.
  Nanos max_half_open{std::chrono::seconds(30)};

  // Absent: successful probes let everything through at once.
  std::optional<BreakerRamp> ramp = BreakerRamp{};

  friend bool operator==(const BreakerConfig&, const BreakerConfig&) = default;
};

// One thing that is wrong with a configuration.
struct ConfigFault {
  std::string_view field;  // as BreakerConfig spells it: "probe_successes", "ramp.strikes"
  std::string value;       // as given
  std::string problem;     // reads on after the value: "exceeds probes of 3"
  std::string allowed;

  // "probe_successes: 5 exceeds probes of 3; allowed: 1 to 3"
  std::string text() const;
};

// Everything that is wrong with it; empty where nothing is.
std::vector<ConfigFault> check_breaker_config(const BreakerConfig& config);

}  // namespace weir
