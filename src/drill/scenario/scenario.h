#pragma once

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
  pause,   // SIGSTOP: it is there, and does nothing
  resume,  // SIGCONT
  kill,    // SIGKILL: what it held in memory is lost
  start,   // again, empty
};

// A stretch of time under one kind of fault.
struct Phase {
  std::string name;
  Nanos length{0};
  ProxyFaults faults;
  bool reset = false;  // connections that stand are cut off at its beginning
  ServerAct server = ServerAct::none;
  Nanos flap{0};  // not 0: the faults hold for so long, then do not for so long, and so on
  std::uint32_t load_percent = 100;

  // Whether the store can be asked as if nothing were the matter.
  bool is_calm() const noexcept {
    return faults == ProxyFaults{} && server != ServerAct::pause && server != ServerAct::kill;
  }
};

// A store's bad day, from before it to after it.
struct Scenario {
  std::string name;
  std::string about;
  std::vector<Phase> phases;

  Nanos length() const noexcept;
  // Times that the store loses what it holds.
  std::uint32_t losses() const noexcept;
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
