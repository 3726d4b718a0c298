#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/clock.h"

namespace weir::sim {

// What a seed draws: who asks what when, and what goes wrong meanwhile. Times count from the start
// of the run, when every worker is connected.

enum class FaultKind : std::uint8_t {
  outage,         // the server is gone; it comes back with its data
  hang,           // the server stops, and goes on
  slow,           // each command takes `amount`
  delay,          // one worker's link takes `amount` longer, each way
  cut,            // one worker's link, both ways
  cut_up,         // what it sends
  cut_down,       // what it would be answered
  lose_replies,   // as cut_down, and then the connection is gone with all that was held
  flush,          // the data are gone, under connections that stand
  restart_empty,  // the server comes back with nothing
  restart_old,    // the server comes back with an older dump, or as a replica that was behind
  clock_step,     // the server's clock is set by `amount`
  scripts_gone,   // SCRIPT FLUSH
  restart_worker,
  crash_worker,  // whoever waited for it hears nothing
  reload,        // the workers load other numbers, one after the other
};
inline constexpr std::size_t kFaultKinds = 16;
std::string_view to_string(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::outage;
  Nanos start{0};
  Nanos length{0};
  std::uint32_t worker = 0;  // where it is one worker's
  Nanos amount{0};
  std::size_t numbers = 0;  // reload
};

// Whether workers may do without the store because of it.
bool cuts_off(FaultKind kind);
bool is_of_one_worker(FaultKind kind);

struct Question {
  Nanos at{0};
  std::uint32_t worker = 0;
  std::size_t route = 0;
  std::uint32_t user = 0;
  std::uint64_t cost = 1;
  std::optional<Nanos> patience;
};

struct Scenario {
  std::uint64_t seed = 0;
  std::size_t temperament = 0;
  std::vector<Fault> faults;
  std::vector<Question> questions;
  std::vector<Nanos> walls;  // each worker's clock, against true time
  Nanos jitter{0};
  Nanos length{0};
  // A whole outage in which every worker is offered its part of the flood route.
  std::optional<Fault> flood;

  bool has(FaultKind kind) const;
  std::string text() const;
};

Scenario draw(std::uint64_t seed);

}  // namespace weir::sim
