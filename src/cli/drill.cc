#include "cli/drill.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "cli/number.h"
#include "drill/run/drill.h"
#include "drill/run/in_words.h"
#include "drill/scenario/scenario.h"
#include "render/text.h"

namespace weir::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostRate = 10'000;
constexpr std::uint64_t kMostClients = 10'000;
constexpr const char* kDefaultScenario = "failover-11s";

ExitCode list(Environment& environment, bool json) {
  for (const drill::Scenario& each : drill::shipped_scenarios()) {
    if (json) {
      std::string line = "{\"scenario\":";
      render::append_json_string(line, each.name);
      line += ",\"about\":";
      render::append_json_string(line, each.about);
      line += ",\"length_ms\":" + std::to_string(each.length().count() / 1'000'000) + "}";
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

// Returns what is wrong with the words, if anything.
std::optional<std::string> read(const DrillCommand& command, drill::DrillOptions& options,
                                std::vector<drill::Scenario>& scenarios) {
  options.policy = command.policy;
  if (!command.rate.empty()) {
    const auto rate = parse_number(command.rate);
    if (!rate || *rate == 0 || *rate > kMostRate) {
      return "--rate is '" + command.rate + "'; it must be a whole number from 1 to " +
             std::to_string(kMostRate);
    }
    options.rate = static_cast<double>(*rate);
  }
  if (!command.clients.empty()) {
    const auto clients = parse_number(command.clients);
    if (!clients || *clients == 0 || *clients > kMostClients) {
      return "--clients is '" + command.clients + "'; it must be a whole number from 1 to " +
             std::to_string(kMostClients);
    }
    options.clients = static_cast<std::uint32_t>(*clients);
  }
  std::vector<std::string> names = command.scenarios;
  if (names.empty()) names.emplace_back(kDefaultScenario);
  for (const std::string& name : names) {
    if (const drill::Scenario* shipped = drill::shipped_scenario(name)) {
      scenarios.push_back(*shipped);
      continue;
    }
    auto loaded = drill::load_scenario(name);
    if (!loaded) return loaded.error().message;
    scenarios.push_back(std::move(*loaded));
  }
  return std::nullopt;
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

}  // namespace

ExitCode drill(Environment& environment, const DrillCommand& command) {
  if (command.list) return list(environment, command.json);
  if (command.policy.empty()) {
    return fail(environment, ExitCode::usage, "POLICY is required; see weir drill --help");
  }
  drill::DrillOptions options;
  std::vector<drill::Scenario> scenarios;
  if (const auto fault = read(command, options, scenarios)) {
    return fail(environment, ExitCode::usage, *fault);
  }
  std::error_code fault;
  if (!command.report.empty()) {
    fs::create_directories(command.report, fault);
    if (!fs::is_directory(command.report, fault) || ::access(command.report.c_str(), W_OK) != 0) {
      return fail(
          environment, ExitCode::usage,
          "--report is '" + command.report + "'; it must be a folder that can be written to");
    }
  }
  options.weir_program = fs::read_symlink("/proc/self/exe", fault).string();
  ExitCode code = ExitCode::as_asked;
  for (const drill::Scenario& scenario : scenarios) {
    const auto report = drill::run_drill(options, scenario, progress_on(environment));
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

}  // namespace weir::cli
