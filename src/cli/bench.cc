#include "cli/bench.h"

#include <fstream>
#include <optional>

#include "cli/number.h"
#include "drill/load/rls_load.h"
#include "policy/duration.h"

namespace weir::cli {
namespace {

constexpr std::uint64_t kMostConnections = 10'000;
constexpr std::uint64_t kMostStreams = 4'096;
constexpr std::uint64_t kMostKeys = 100'000'000;
constexpr std::uint64_t kMostDescriptors = 1'000;
constexpr std::uint64_t kMostPercent = 100;
constexpr std::uint64_t kMostRate = 10'000'000;

using Fault = std::optional<std::string>;

// Reads a whole number from 1 to `most`, where one is given.
template <class T>
Fault read(const char* name, const std::string& given, std::uint64_t most, T& option) {
  if (given.empty()) return std::nullopt;
  const auto number = parse_number(given);
  if (!number || *number == 0 || *number > most) {
    return std::string(name) + " is '" + given + "'; it must be a whole number from 1 to " +
           std::to_string(most);
  }
  option = static_cast<T>(*number);
  return std::nullopt;
}

template <class T>
Fault read_time(const char* name, const std::string& given, T& option) {
  if (given.empty()) return std::nullopt;
  const auto time = policy::parse_duration(given);
  if (!time || *time <= Nanos::zero()) {
    return std::string(name) + " is '" + given + "'; it must be " +
           std::string(policy::kDurationForm);
  }
  option = *time;
  return std::nullopt;
}

Fault read_all(const BenchCommand& command, drill::LoadOptions& options) {
  if (command.what != "rls") {
    return "'" + command.what + "' is nothing to load; there is rls, a rate limit service";
  }
  options.address = command.address;
  if (!command.domain.empty()) options.domain = command.domain;
  if (!command.key.empty()) options.key = command.key;
  if (!command.distribution.empty()) {
    const auto distribution = drill::distribution_of(command.distribution);
    if (!distribution) {
      return "--distribution is '" + command.distribution + "'; it must be uniform, zipf or hot";
    }
    options.distribution = *distribution;
  }
  double rate = 0;
  Fault fault = read("--connections", command.connections, kMostConnections, options.connections);
  if (!fault) fault = read("--streams", command.streams, kMostStreams, options.streams);
  if (!fault) fault = read("--rate", command.rate, kMostRate, rate);
  if (!fault) fault = read("--keys", command.keys, kMostKeys, options.keys);
  if (!fault) {
    fault = read("--descriptors", command.descriptors, kMostDescriptors, options.descriptors);
  }
  if (!fault) {
    fault = read("--over-limit", command.over_limit, kMostPercent, options.over_limit_percent);
  }
  if (!fault) fault = read_time("--duration", command.duration, options.duration);
  if (!fault) fault = read_time("--timeout", command.timeout, options.timeout);
  if (rate > 0) options.rate = rate;
  return fault;
}

// A line that is written over by the next, on a terminal.
drill::OnProgress progress_on(Environment& environment) {
  if (!environment.colours) return {};
  return [&environment](std::uint64_t answered, Nanos passed) {
    const double seconds = std::chrono::duration<double>(passed).count();
    const double rate = seconds > 0 ? static_cast<double>(answered) / seconds : 0;
    environment.err << "\r\033[K" << static_cast<std::uint64_t>(seconds) << " s, " << answered
                    << " answered, " << static_cast<std::uint64_t>(rate) << " calls/s"
                    << std::flush;
  };
}

ExitCode code_of(const drill::LoadReport& report) {
  return report.grpc_errors.empty() && report.unanswered == 0 ? ExitCode::as_asked
                                                              : ExitCode::undecided;
}

}  // namespace

ExitCode bench(Environment& environment, const BenchCommand& command) {
  drill::LoadOptions options;
  if (const Fault fault = read_all(command, options)) {
    return fail(environment, ExitCode::usage, *fault);
  }
  const auto report = drill::run_load(options, progress_on(environment));
  if (environment.colours) environment.err << "\r\033[K" << std::flush;
  if (!report) {
    const bool wrong = report.error().code == ErrorCode::invalid_argument;
    return fail(environment, wrong ? ExitCode::usage : ExitCode::undecided, report.error().message);
  }
  environment.out << (command.json ? drill::to_json(options, *report) + "\n"
                                   : drill::to_text(options, *report));
  if (!command.svg.empty()) {
    std::ofstream file(command.svg);
    file << drill::to_svg(options, *report);
    if (!file.flush()) {
      return fail(environment, ExitCode::undecided, "'" + command.svg + "' cannot be written");
    }
  }
  return code_of(*report);
}

}  // namespace weir::cli
