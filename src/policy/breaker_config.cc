#include "weir/breaker_config.h"

#include <string>

#include "policy/duration.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using policy::to_text;

class Checker {
 public:
  void number(std::string_view field, std::uint64_t value, std::uint64_t least,
              std::uint64_t most) {
    if (value >= least && value <= most) return;
    add(field, std::to_string(value), value < least ? "is too small" : "is too large",
        std::to_string(least) + " to " + std::to_string(most));
  }
  void number(std::string_view field, std::optional<std::uint32_t> value, std::uint64_t least,
              std::uint64_t most) {
    if (value) number(field, std::uint64_t{*value}, least, most);
  }
  void time(std::string_view field, Nanos value, Nanos least, Nanos most) {
    if (value >= least && value <= most) return;
    add(field, to_text(value), value < least ? "is too short" : "is too long",
        to_text(least) + " to " + to_text(most));
  }
  void add(std::string_view field, std::string value, std::string problem, std::string allowed) {
    faults.push_back({.field = field,
                      .value = std::move(value),
                      .problem = std::move(problem),
                      .allowed = std::move(allowed)});
  }

  std::vector<ConfigFault> faults;
};

void check_rules(Checker& check, const BreakerConfig& config) {
  check.number("consecutive_failures", config.consecutive_failures, 1, 10'000);
  check.number("failure_percent", config.failure_percent, 1, 100);
  check.number("slow_percent", config.slow_percent, 1, 100);
  if (config.slow_call) check.time("slow_call", *config.slow_call, 1us, 1h);
  if (config.slow_percent && !config.slow_call)
    check.add("slow_percent", std::to_string(*config.slow_percent),
              "says how many calls may be slow, but not what slow is", "slow_call beside it");
  if (config.slow_call && !config.slow_percent)
    check.add("slow_call", to_text(*config.slow_call), "stands without slow_percent",
              "slow_percent beside it");
  if (!config.consecutive_failures && !config.failure_percent && !config.slow_percent)
    check.add("failure_percent", "absent", "leaves no rule that could open the breaker",
              "consecutive_failures, failure_percent or slow_percent");

  check.number("minimum_calls", std::uint64_t{config.minimum_calls}, 1, 10'000);
  if (const auto* calls = std::get_if<LastCalls>(&config.window)) {
    check.number("window.calls", std::uint64_t{calls->calls}, 1, 10'000);
    if (config.minimum_calls > calls->calls && calls->calls >= 1)
      check.add("minimum_calls", std::to_string(config.minimum_calls),
                "is more than the window of " + std::to_string(calls->calls) + " calls ever holds",
                "at most the window");
  } else if (const auto* time = std::get_if<LastTime>(&config.window)) {
    check.time("window.length", time->length, 1s, 1h);
    check.number("window.buckets", std::uint64_t{time->buckets}, 2, 60);
  }
}

void check_waits(Checker& check, const BreakerConfig& config) {
  check.time("open_wait", config.open_wait, 1ms, 24h);
  check.time("max_open_wait", config.max_open_wait, 1ms, 24h);
  if (config.max_open_wait < config.open_wait)
    check.add("max_open_wait", to_text(config.max_open_wait),
              "is less than open_wait of " + to_text(config.open_wait), "at least open_wait");
  check.number("jitter_percent", std::uint64_t{config.jitter_percent}, 0, 50);
  check.time("forget_after", config.forget_after, 1ms, 24h);
  check.time("max_retry_after", config.max_retry_after, 1ms, 24h);
}

void check_probes(Checker& check, const BreakerConfig& config) {
  check.number("probes", std::uint64_t{config.probes}, 1, 1'000);
  check.number("probes_in_flight", std::uint64_t{config.probes_in_flight}, 1, 100);
  check.number("probe_successes", std::uint64_t{config.probe_successes}, 1, 1'000);
  const std::string probes = std::to_string(config.probes);
  if (config.probes_in_flight > config.probes)
    check.add("probes_in_flight", std::to_string(config.probes_in_flight),
              "exceeds probes of " + probes, "1 to " + probes);
  if (config.probe_successes > config.probes)
    check.add("probe_successes", std::to_string(config.probe_successes),
              "exceeds probes of " + probes + ": it could never close", "1 to " + probes);
  check.time("probe_deadline", config.probe_deadline, 1ms, 1h);
  check.time("max_half_open", config.max_half_open, 1ms, 24h);
  if (config.max_half_open < config.probe_deadline)
    check.add("max_half_open", to_text(config.max_half_open),
              "is less than probe_deadline of " + to_text(config.probe_deadline),
              "at least probe_deadline");
}

void check_ramp(Checker& check, const BreakerRamp& ramp) {
  check.number("ramp.start_percent", std::uint64_t{ramp.start_percent}, 1, 100);
  check.number("ramp.growth_percent", std::uint64_t{ramp.growth_percent}, 101, 1'000);
  check.time("ramp.step", ramp.step, 1ms, 1h);
  check.number("ramp.minimum_calls", std::uint64_t{ramp.minimum_calls}, 1, 10'000);
  check.number("ramp.strikes", std::uint64_t{ramp.strikes}, 1, 100);
}

}  // namespace

std::string ConfigFault::text() const {
  return std::string(field) + ": " + value + " " + problem + "; allowed: " + allowed;
}

std::vector<ConfigFault> check_breaker_config(const BreakerConfig& config) {
  Checker check;
  check_rules(check, config);
  check_waits(check, config);
  check_probes(check, config);
  if (config.ramp) check_ramp(check, *config.ramp);
  return std::move(check.faults);
}

}  // namespace weir
