#include "cli/proxy.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "drill/proxy/api_door.h"
#include "drill/proxy/proxy_api.h"
#include "drill/proxy/proxy_set.h"
#include "drill/run/in_words.h"
#include "drill/run/playbook.h"
#include "drill/run/stage.h"
#include "drill/scenario/scenario.h"

namespace weir::cli {
namespace {

constexpr const char* kUsualApi = "127.0.0.1:8474";  // where Toxiproxy's clients look
constexpr const char* kUsualName = "store";

ExitCode fail_with(Environment& environment, const std::string& what, const Error& error) {
  const bool wrong = error.code != ErrorCode::unavailable;
  return fail(environment, wrong ? ExitCode::usage : ExitCode::undecided,
              what + ": " + error.message);
}

void tell(Environment& environment, const drill::ProxySet& proxies, const std::string& api) {
  std::size_t width = 3;
  for (const auto& [name, each] : proxies.all()) width = std::max(width, name.size());
  environment.out << "weir proxy is ready\n";
  for (const auto& [name, each] : proxies.all()) {
    environment.out << "  " << name << std::string(width - name.size() + 2, ' ') << each.listen
                    << " -> " << each.upstream << (each.enabled ? "" : " (disabled)") << '\n';
  }
  environment.out << "  api" << std::string(width - 1, ' ') << "http://" << api << '\n'
                  << std::flush;
}

Result<drill::Scenario> read_scenario(const std::string& name) {
  const drill::Scenario* const shipped = drill::shipped_scenario(name);
  auto loaded = shipped != nullptr ? Result(*shipped) : drill::load_scenario(name);
  if (!loaded || !loaded->needs_own_server()) return loaded;
  return Error{ErrorCode::invalid_argument,
               "scenario " + loaded->name +
                   " changes the server itself, which a proxy in front of it cannot"};
}

// Plays a scenario out on the proxy of a name, wherever the API has moved that one meanwhile.
class Play {
 public:
  Play(Environment& environment, drill::ProxySet& proxies, std::string name,
       drill::Scenario scenario)
      : environment_(environment),
        proxies_(proxies),
        name_(std::move(name)),
        scenario_(std::move(scenario)),
        book_(scenario_) {}
  Play(const Play&) = delete;
  Play& operator=(const Play&) = delete;

  void begin(drill::ApiDoor& door) {
    const MonoTime now = Clock::real().mono();
    for (const drill::Playbook::Move& move : book_.moves()) {
      door.at(now + move.at, [this, &move] { make(move); });
    }
  }

 private:
  void make(const drill::Playbook::Move& move) {
    const drill::Phase& phase = scenario_.phases[move.phase];
    const auto found = proxies_.find(name_);
    const bool is_there = found && (*found)->proxy;
    if (is_there) {
      book_.make(move, *(*found)->proxy);
      if (move.begins) drill::act_by_proxy(*(*found)->proxy, phase);
    }
    const bool over = &move == &book_.moves().back();
    if (!move.begins && !over) return;
    environment_.out << scenario_.name << ": "
                     << (over ? "over" : phase.name + ", " + drill::in_words(phase.length))
                     << (is_there ? "" : "; " + name_ + " is not there, and nothing is done to it")
                     << std::endl;
  }

  Environment& environment_;
  drill::ProxySet& proxies_;
  const std::string name_;
  const drill::Scenario scenario_;
  drill::Playbook book_;
};

}  // namespace

ExitCode proxy(Environment& environment, const ProxyCommand& command) {
  if (command.upstream.empty() &&
      !(command.listen.empty() && command.name.empty() && command.scenario.empty())) {
    return fail(
        environment, ExitCode::usage,
        "--upstream is required with --listen, --name and --scenario; see weir proxy --help");
  }
  std::optional<drill::Scenario> scenario;
  if (!command.scenario.empty()) {
    auto read = read_scenario(command.scenario);
    if (!read) return fail(environment, ExitCode::usage, "--scenario: " + read.error().message);
    scenario = std::move(*read);
  }
  const std::string name = command.name.empty() ? kUsualName : command.name;
  drill::ProxySet proxies;
  drill::ProxyApi api(proxies);
  if (!command.config.empty()) {
    std::ifstream file(command.config, std::ios::binary);
    std::ostringstream text;
    if (!file || !(text << file.rdbuf())) {
      return fail(environment, ExitCode::usage, "'" + command.config + "' cannot be read");
    }
    if (auto made = api.populate(text.str()); !made) {
      return fail_with(environment, command.config, made.error());
    }
  }
  if (!command.upstream.empty()) {
    drill::ProxySet::Entry entry;
    entry.name = name;
    entry.listen = command.listen.empty() ? "127.0.0.1:0" : command.listen;
    entry.upstream = command.upstream;
    if (auto added = proxies.add(std::move(entry)); !added) {
      return fail_with(environment, "--listen, --upstream", added.error());
    }
  }
  auto door = drill::ApiDoor::open(command.api.empty() ? kUsualApi : command.api, api);
  if (!door) return fail_with(environment, "--api", door.error());
  environment.answers_on_out = false;
  tell(environment, proxies, (*door)->address());
  std::optional<Play> play;
  if (scenario) {
    play.emplace(environment, proxies, name, std::move(*scenario));
    play->begin(**door);
  }
  (void)(*door)->run();
  return ExitCode::as_asked;
}

}  // namespace weir::cli
