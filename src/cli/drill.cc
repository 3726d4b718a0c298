#include "cli/drill.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>

#include "cli/drill_target.h"
#include "cli/number.h"
#include "drill/run/bill_check.h"
#include "drill/run/drill.h"
#include "drill/run/in_words.h"
#include "drill/scenario/scenario.h"
#include "drill/target/target_drill.h"
#include "render/text.h"
#include "weir/policy.h"

namespace weir::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostRate = 10'000;
constexpr std::uint64_t kMostClients = 10'000;
constexpr std::uint64_t kMostTargetRate = 1'000;
constexpr const char* kUsualListen = "127.0.0.1:16379";
constexpr const char* kDefaultScenario = "failover-11s";
constexpr const char* kAllScenarios = "all";

ExitCode list(Environment& environment, bool json) {
  for (const drill::Scenario& each : drill::shipped_scenarios()) {
    if (json) {
      std::string line = "{\"scenario\":";
      render::append_json_string(line, each.name);
      line += ",\"about\":";
      render::append_json_string(line, each.about);
      line += ",\"length_ms\":" + std::to_string(each.length().count() / 1'000'000) +
              ",\"settles\":" + (each.settles ? "true" : "false") + "}";
      environment.out << line << '\n';
    } else {
      std::string name = each.name;
      name.resize(std::max<std::size_t>(name.size(), 18), ' ');
      environment.out << name << ' ' << drill::in_words(each.length()) << "  " << each.about
                      << '\n';
    }
  }
  return ExitCode::as_asked;
}

// Reads a number of at most `most` into `to`; returns what is wrong with it, if anything.
template <class Number>
std::optional<std::string> read_number(const char* name, const std::string& given,
                                       std::uint64_t most, Number& to) {
  if (given.empty()) return std::nullopt;
  const auto number = parse_number(given);
  if (!number || *number == 0 || *number > most) {
    return std::string(name) + " is '" + given + "'; it must be a whole number from 1 to " +
           std::to_string(most);
  }
  to = static_cast<Number>(*number);
  return std::nullopt;
}

// `all` is all that fit: those that settle are for a policy that bills.
std::optional<std::string> read_scenarios(const std::vector<std::string>& names,
                                          const std::string& length, bool bills,
                                          std::vector<drill::Scenario>& scenarios) {
  for (const std::string& name : names) {
    if (name == kAllScenarios) {
      const auto shipped = drill::shipped_scenarios();
      std::copy_if(shipped.begin(), shipped.end(), std::back_inserter(scenarios),
                   [bills](const drill::Scenario& each) { return bills || !each.settles; });
      continue;
    }
    if (const drill::Scenario* shipped = drill::shipped_scenario(name)) {
      scenarios.push_back(*shipped);
      continue;
    }
    auto loaded = drill::load_scenario(name);
    if (!loaded) return loaded.error().message;
    scenarios.push_back(std::move(*loaded));
  }
  std::uint32_t percent = 100;
  if (auto fault = read_number("--length", length, 100, percent)) return fault;
  for (drill::Scenario& each : scenarios) each = each.shortened(percent);
  return std::nullopt;
}

// A policy that cannot be read is the drill's to refuse.
bool bills(const std::string& path) {
  const auto policy = Policy::load(path);
  return policy && drill::is_metered(policy->model());
}

drill::OnPhase progress_on(Environment& environment) {
  if (!environment.colours) return {};
  return [&environment](const drill::Phase& phase, Nanos passed, Nanos whole) {
    environment.err << "\r\033[K" << drill::in_words(passed) << " of " << drill::in_words(whole)
                    << ": " << phase.name << std::flush;
  };
}

std::optional<std::string> write_page(const std::string& folder, const drill::DrillReport& report) {
  for (const auto& [ending, text] :
       {std::pair{".html", drill::to_html(report)}, {".json", drill::to_json(report) + "\n"}}) {
    const std::string path = (fs::path(folder) / (report.scenario.name + ending)).string();
    std::ofstream file(path);
    file << text;
    if (!file.flush()) return "'" + path + "' cannot be written";
  }
  return std::nullopt;
}

using RunOne = std::function<Result<drill::DrillReport>(const drill::Scenario& scenario)>;

// Runs one scenario after another, and tells of each when it is over.
ExitCode run_all(Environment& environment, const DrillCommand& command,
                 const std::vector<drill::Scenario>& scenarios, const RunOne& run_one) {
  std::error_code fault;
  if (!command.report.empty()) {
    fs::create_directories(command.report, fault);
    if (!fs::is_directory(command.report, fault) || ::access(command.report.c_str(), W_OK) != 0) {
      return fail(
          environment, ExitCode::usage,
          "--report is '" + command.report + "'; it must be a folder that can be written to");
    }
  }
  ExitCode code = ExitCode::as_asked;
  for (const drill::Scenario& scenario : scenarios) {
    const auto report = run_one(scenario);
    if (environment.colours) environment.err << "\r\033[K" << std::flush;
    if (!report) {
      const bool wrong = report.error().code == ErrorCode::invalid_argument;
      return fail(environment, wrong ? ExitCode::usage : ExitCode::undecided,
                  report.error().message);
    }
    environment.out << (command.json ? drill::to_json(*report) + "\n" : drill::to_text(*report))
                    << std::flush;
    if (!command.report.empty()) {
      if (const auto unwritten = write_page(command.report, *report)) {
        return fail(environment, ExitCode::undecided, *unwritten);
      }
    }
    if (!report->good()) code = ExitCode::answered_no;
  }
  return code;
}

ExitCode drill_policy(Environment& environment, const DrillCommand& command) {
  drill::DrillOptions options;
  options.policy = command.policy;
  options.store = command.store;
  std::vector<drill::Scenario> scenarios;
  auto names = command.scenarios;
  if (names.empty()) names.emplace_back(kDefaultScenario);
  for (auto fault : {read_number("--rate", command.rate, kMostRate, options.rate),
                     read_number("--clients", command.clients, kMostClients, options.clients),
                     read_number("--cost", command.cost, kMaxUnits, options.cost),
                     read_scenarios(names, command.length, bills(command.policy), scenarios)}) {
    if (fault) return fail(environment, ExitCode::usage, *fault);
  }
  std::error_code fault;
  options.weir_program = fs::read_symlink("/proc/self/exe", fault).string();
  const drill::OnPhase progress = progress_on(environment);
  return run_all(environment, command, scenarios, [&](const drill::Scenario& scenario) {
    return drill::run_drill(options, scenario, progress);
  });
}

ExitCode drill_target(Environment& environment, const DrillCommand& command) {
  drill::TargetOptions options;
  std::vector<drill::Scenario> scenarios;
  // The policy's place is a scenario's where there is no policy.
  std::vector<std::string> names = command.scenarios;
  if (!command.policy.empty()) names.insert(names.begin(), command.policy);
  if (names.empty()) names = {"down", "blackhole"};
  for (auto fault : {read_target(command, options),
                     read_number("--rate", command.rate, kMostTargetRate, options.rate),
                     read_scenarios(names, command.length, false, scenarios)}) {
    if (fault) return fail(environment, ExitCode::usage, *fault);
  }
  auto opened = drill::TargetDrill::open(command.proxy_store,
                                         command.listen.empty() ? kUsualListen : command.listen,
                                         std::move(options));
  if (!opened) {
    const bool wrong = opened.error().code == ErrorCode::invalid_argument;
    return fail(environment, wrong ? ExitCode::usage : ExitCode::undecided, opened.error().message);
  }
  if (command.insecure) {
    environment.err << "weir: WARNING: --insecure: nobody checks who answers at " << command.target
                    << "; what it says, and the keys it is told, may go to anybody" << std::endl;
  }
  environment.err << "weir: the app's store must be " << (*opened)->listen() << ", which leads to "
                  << command.proxy_store << std::endl;
  const drill::OnPhase progress = progress_on(environment);
  return run_all(environment, command, scenarios, [&](const drill::Scenario& scenario) {
    return (*opened)->run(scenario, progress);
  });
}

}  // namespace

ExitCode drill(Environment& environment, const DrillCommand& command) {
  if (command.list) return list(environment, command.json);
  if (const auto fault = mixed_up(command)) return fail(environment, ExitCode::usage, *fault);
  if (!command.target.empty()) return drill_target(environment, command);
  if (command.policy.empty()) {
    return fail(environment, ExitCode::usage,
                "POLICY is required, or --target; see weir drill --help");
  }
  return drill_policy(environment, command);
}

}  // namespace weir::cli
