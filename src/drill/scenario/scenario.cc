#include "drill/scenario/scenario.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>

#include "drill/scenario/shipped.h"
#include "policy/fault_list.h"
#include "policy/field_reader.h"
#include "policy/yaml.h"

namespace weir::drill {
namespace {

using namespace std::chrono_literals;
using policy::FaultList;
using policy::MapReader;
using policy::Value;

constexpr Nanos kLongestPhase = 1h;
constexpr Nanos kLongestDelay = 1min;
constexpr Nanos kFurthestClock = 24h * 366;
constexpr std::size_t kMostPhases = 100;
constexpr std::uint64_t kMostShards = 16;
constexpr Nanos kLeastShortened = 1s;
constexpr Nanos kLeastLast = 5s;

enum class StoreWord : std::uint8_t { well, refuse, blackhole, deaf, stall };

void read_time(FaultList& faults, MapReader& map, std::string_view field, Nanos least, Nanos most,
               Nanos& out) {
  if (const auto at = map.get(field)) {
    out = policy::read_duration(faults, *at, least, most).value_or(out);
  }
}

void read_number(FaultList& faults, MapReader& map, std::string_view field, std::uint64_t most,
                 std::uint32_t& out) {
  if (const auto at = map.get(field)) {
    out = static_cast<std::uint32_t>(policy::read_integer(faults, *at, 1, most).value_or(out));
  }
}

ProxyFaults faults_of(StoreWord word) {
  switch (word) {
    case StoreWord::well:
      break;
    case StoreWord::refuse:
      return ProxyFaults::refuse();
    case StoreWord::blackhole:
      return ProxyFaults::blackhole();
    case StoreWord::deaf:
      return ProxyFaults::deaf();
    case StoreWord::stall:
      return ProxyFaults::stall();
  }
  return {};
}

void read_faults(FaultList& faults, MapReader& map, Phase& phase) {
  if (const auto at = map.get("store")) {
    const auto word = policy::read_choice<StoreWord>(faults, *at,
                                                     {{"well", StoreWord::well},
                                                      {"refuse", StoreWord::refuse},
                                                      {"blackhole", StoreWord::blackhole},
                                                      {"deaf", StoreWord::deaf},
                                                      {"stall", StoreWord::stall}});
    if (word) phase.faults = faults_of(*word);
  }
  read_time(faults, map, "delay", 1us, kLongestDelay, phase.faults.reply_delay);
  read_time(faults, map, "jitter", 1us, kLongestDelay, phase.faults.jitter);
  read_time(faults, map, "between_bytes", 1us, 1s, phase.faults.between_bytes);
  if (const auto at = map.get("cut")) {
    using Cut = ProxyFaults::Cut;
    phase.faults.cut = policy::read_choice<Cut>(faults, *at,
                                                {{"before_reply", Cut::before_reply},
                                                 {"inside_reply", Cut::inside_reply},
                                                 {"after_reply", Cut::after_reply}})
                           .value_or(Cut::never);
  }
  read_number(faults, map, "percent", 100, phase.faults.percent);
  if (const auto at = map.get("reset")) {
    phase.reset = policy::read_bool(faults, *at).value_or(false);
  }
  if (const auto at = map.get("server")) {
    phase.server = policy::read_choice<ServerAct>(faults, *at,
                                                  {{"pause", ServerAct::pause},
                                                   {"resume", ServerAct::resume},
                                                   {"kill", ServerAct::kill},
                                                   {"start", ServerAct::start},
                                                   {"readonly", ServerAct::readonly},
                                                   {"writable", ServerAct::writable},
                                                   {"full", ServerAct::full},
                                                   {"freed", ServerAct::freed},
                                                   {"loading", ServerAct::loading},
                                                   {"loaded", ServerAct::loaded}})
                       .value_or(ServerAct::none);
  }
  read_time(faults, map, "flap", 10ms, kLongestPhase, phase.flap);
  if (map.has("capacity")) {
    std::uint32_t percent = 0;
    read_number(faults, map, "capacity", 10'000, percent);
    if (percent > 0) phase.capacity_percent = percent;
  }
}

Phase read_phase(FaultList& faults, const Value& at, Nanos ahead) {
  MapReader map(faults, at, "a phase",
                {"name", "for", "store", "delay", "jitter", "between_bytes", "cut", "percent",
                 "reset", "server", "flap", "load", "capacity", "clock"});
  Phase phase;
  phase.clock_ahead = ahead;
  if (!map.is_map()) return phase;
  read_time(faults, map, "clock", 0s, kFurthestClock, phase.clock_ahead);
  if (const auto name = map.get("name")) {
    phase.name = policy::read_text(faults, *name).value_or("");
  } else {
    faults.add_silent(*at.node, at.path, "has no name", "name: a word for the report");
  }
  if (!map.has("for")) {
    faults.add_silent(*at.node, at.path, "does not say how long it is", "for: a duration");
  }
  read_time(faults, map, "for", 100ms, kLongestPhase, phase.length);
  read_number(faults, map, "load", 10'000, phase.load_percent);
  read_faults(faults, map, phase);
  return phase;
}

// What the act makes of a server in this state; absent where it has nothing to do there.
std::optional<ServerState> after(ServerAct act, ServerState state) {
  const auto from = [state](ServerState needed, ServerState to) {
    return state == needed ? std::optional(to) : std::nullopt;
  };
  switch (act) {
    case ServerAct::none:
      return state;
    case ServerAct::pause:
      return from(ServerState::well, ServerState::paused);
    case ServerAct::resume:
      return from(ServerState::paused, ServerState::well);
    case ServerAct::kill:
      return state == ServerState::dead ? std::nullopt : std::optional(ServerState::dead);
    case ServerAct::start:
      return from(ServerState::dead, ServerState::well);
    case ServerAct::readonly:
      return from(ServerState::well, ServerState::readonly);
    case ServerAct::writable:
      return from(ServerState::readonly, ServerState::well);
    case ServerAct::full:
      return from(ServerState::well, ServerState::full);
    case ServerAct::freed:
      return from(ServerState::full, ServerState::well);
    case ServerAct::loading:
      return from(ServerState::well, ServerState::loading);
    case ServerAct::loaded:
      return from(ServerState::loading, ServerState::well);
  }
  return std::nullopt;
}

// What is done to a server holds until it is undone, over the phases that follow.
void carry_on(FaultList& faults, const std::vector<Value>& nodes, std::vector<Phase>& phases) {
  ServerState state = ServerState::well;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const auto next = after(phases[i].server, state);
    if (!next) {
      faults.add_silent(*nodes[i].node, nodes[i].path + ".server",
                        "does not fit what was done to the server before",
                        "pause and resume, kill and start, readonly and writable, full and freed, "
                        "loading and loaded, each after the other");
      return;
    }
    phases[i].state = state = *next;
  }
}

// A cluster has few masters that are no cluster, and its nodes take no replica of nobody.
void check_shards(FaultList& faults, const std::vector<Value>& nodes, const Scenario& scenario) {
  if (scenario.shards < 3) {
    faults.add_silent(*nodes.front().node, "shards", "is too small for a Redis Cluster",
                      "1, a lone server, or 3 and more");
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const ServerState state = scenario.phases[i].state;
    if (state != ServerState::readonly && state != ServerState::loading) continue;
    faults.add_silent(*nodes[i].node, nodes[i].path + ".server",
                      "cannot be done to a cluster's node",
                      "pause, resume, kill, start, full and freed; or shards: 1");
    return;
  }
}

Scenario read_scenario(FaultList& faults, const Value& root, const std::string& name) {
  MapReader map(faults, root, "a scenario", {"name", "about", "shards", "settles", "phases"});
  Scenario scenario{.name = name, .about = {}, .phases = {}};
  if (!map.is_map()) return scenario;
  if (const auto at = map.get("name")) {
    scenario.name = policy::read_text(faults, *at).value_or(name);
  }
  if (const auto at = map.get("about")) {
    scenario.about = policy::read_text(faults, *at).value_or("");
  }
  read_number(faults, map, "shards", kMostShards, scenario.shards);
  if (const auto at = map.get("settles")) {
    scenario.settles = policy::read_bool(faults, *at).value_or(false);
  }
  const auto phases = map.get("phases");
  if (!phases) {
    faults.add_silent(*root.node, root.path, "has no phases", "phases: a list of at least one");
    return scenario;
  }
  const auto nodes = policy::read_list(faults, *phases, kMostPhases, policy::Lone::refused);
  Nanos ahead{0};
  for (const Value& each : nodes) {
    scenario.phases.push_back(read_phase(faults, each, ahead));
    ahead = scenario.phases.back().clock_ahead;
  }
  if (!faults.failed()) carry_on(faults, nodes, scenario.phases);
  if (!faults.failed() && scenario.shards > 1) check_shards(faults, nodes, scenario);
  if (!faults.failed() && scenario.phases.empty()) {
    faults.add_silent(*phases->node, "phases", "is empty", "a list of at least one phase");
  }
  if (scenario.name.find('/') != std::string::npos || scenario.name.starts_with('.')) {
    faults.add_silent(*root.node, "name", "is no name for a file", "letters, digits, '-' and '_'");
  }
  if (!faults.failed() && !scenario.phases.front().is_calm()) {
    faults.add_silent(*phases->node, "phases[0]", "is not calm",
                      "a first phase without faults, for the others to be compared with");
  }
  return scenario;
}

}  // namespace

Nanos Scenario::length() const noexcept {
  return std::accumulate(phases.begin(), phases.end(), Nanos{0},
                         [](Nanos sum, const Phase& phase) { return sum + phase.length; });
}

Scenario Scenario::shortened(std::uint32_t percent) const {
  Scenario shorter = *this;
  for (Phase& phase : shorter.phases) {
    const Nanos least = &phase == &shorter.phases.back() ? kLeastLast : kLeastShortened;
    phase.length = std::min(phase.length, std::max(phase.length * percent / 100, least));
  }
  return shorter;
}

std::uint32_t Scenario::losses() const noexcept {
  std::uint32_t losses = 0;
  Nanos ahead{0};
  for (const Phase& phase : phases) {
    if (phase.server == ServerAct::kill || phase.server == ServerAct::loading) ++losses;
    if (phase.clock_ahead != ahead) ++losses;
    ahead = phase.clock_ahead;
  }
  return losses;
}

bool Scenario::moves_clock() const noexcept {
  return std::any_of(phases.begin(), phases.end(),
                     [](const Phase& phase) { return phase.clock_ahead != Nanos{0}; });
}

bool Scenario::loads() const noexcept {
  return std::any_of(phases.begin(), phases.end(),
                     [](const Phase& phase) { return phase.state == ServerState::loading; });
}

bool Scenario::needs_own_server() const noexcept {
  return shards > 1 || moves_clock() ||
         std::any_of(phases.begin(), phases.end(), [](const Phase& phase) {
           return phase.state == ServerState::readonly || phase.state == ServerState::full ||
                  phase.state == ServerState::loading;
         });
}

std::span<const Scenario> shipped_scenarios() {
  static const std::vector<Scenario> all = [] {
    std::vector<Scenario> read;
    for (const ShippedText& each : shipped_texts()) {
      auto scenario = parse_scenario(each.text, std::string(each.name), std::string(each.name));
      if (scenario) read.push_back(std::move(*scenario));
    }
    return read;
  }();
  return all;
}

const Scenario* shipped_scenario(std::string_view name) {
  const auto all = shipped_scenarios();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [name](const Scenario& each) { return each.name == name; });
  return found == all.end() ? nullptr : &*found;
}

Result<Scenario> parse_scenario(std::string_view text, const std::string& file,
                                const std::string& name) {
  FaultList faults(file);
  const auto document = policy::read_yaml(text, faults);
  Scenario scenario;
  if (document) scenario = read_scenario(faults, {document->root, ""}, name);
  if (faults.failed()) {
    return Error{ErrorCode::invalid_argument, policy::text_of(faults.sorted())};
  }
  return scenario;
}

Result<Scenario> load_scenario(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    return Error{ErrorCode::not_found, path +
                                           ": cannot be read; allowed: a scenario file, or one "
                                           "of those that `weir drill --list` names"};
  }
  return parse_scenario(text.str(), path, std::filesystem::path(path).stem().string());
}

}  // namespace weir::drill
