#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "drill/proxy/proxy_faults.h"
#include "weir/clock.h"
#include "weir/result.h"

namespace weir::drill {

// What is done to the store's server itself when a phase begins.
enum class ServerAct : std::uint8_t {
  none,
  pause,     // SIGSTOP: it is there, and does nothing
  resume,    // SIGCONT
  kill,      // SIGKILL: what it held in memory is lost
  start,     // again, empty
  readonly,  // it becomes the replica of a primary that is gone, and refuses to write
  writable,  // a primary again
  full,      // it has no memory left, and refuses to write
  freed,     // it has again
  loading,   // it dies, starts again, and answers LOADING for as long as it reads what it had saved
  loaded,    // it has read it
};

// What the server is like for as long as a phase lasts, by what was done to it until then.
enum class ServerState : std::uint8_t { well, paused, dead, readonly, full, loading };

// A stretch of time under one kind of fault.
struct Phase {
  std::string name;
  Nanos length{0};
  ProxyFaults faults;
  bool reset = false;  // connections that stand are cut off at its beginning
  ServerAct server = ServerAct::none;
  ServerState state = ServerState::well;
  Nanos flap{0};  // not 0: the faults hold for so long, then do not for so long, and so on
  std::uint32_t load_percent = 100;
  // Of the bytes a second that its replies were in the first phase: the store gets no more out.
  std::optional<std::uint32_t> capacity_percent;
  Nanos clock_ahead{0};  // so far is the store's clock ahead of this machine's

  // Whether the store can be asked as if nothing were the matter.
  bool is_calm() const noexcept {
    return faults == ProxyFaults{} && state == ServerState::well && !capacity_percent &&
           clock_ahead == Nanos{0};
  }
};

// A store's bad day, from before it to after it.
struct Scenario {
  std::string name;
  std::string about;
  // Masters of a Redis Cluster that is the store, of which the faults strike the first; 1: a lone
  // server.
  std::uint32_t shards = 1;
  // It is for policies that meter: what was served is held against the bill.
  bool settles = false;
  std::vector<Phase> phases;

  Nanos length() const noexcept;
  // The same with phases of so many percent of their length, but the last: it is no shorter than a
  // breaker needs to come back after faults so short, and all are no shorter than a second.
  //
  // Requires:    1 <= percent <= 100.
  Scenario shortened(std::uint32_t percent) const;
  // Times that the store loses what it holds, or that its clock leaves the windows they are in.
  std::uint32_t losses() const noexcept;
  bool moves_clock() const noexcept;
  bool loads() const noexcept;
  // Whether it does something to the server that bytes cannot do, so that it needs one of its own.
  bool needs_own_server() const noexcept;
};

// Those that ship, by name.
std::span<const Scenario> shipped_scenarios();
const Scenario* shipped_scenario(std::string_view name);

// Reads one scenario; `name` is what it is called where the text does not say. The first phase must
// be calm, for it is what the others are compared with.
//
// Errors:      invalid_argument: every fault, one a line, as of policy files.
Result<Scenario> parse_scenario(std::string_view text, const std::string& file,
                                const std::string& name);
Result<Scenario> load_scenario(const std::string& path);

}  // namespace weir::drill
