#include "policy/read_safeguards.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/wide.h"
#include "policy/duration.h"
#include "policy/rule_draft.h"

namespace weir::policy {
namespace {

using namespace std::chrono_literals;

// Ranges of single fields, as check_breaker_config() and check_concurrency_config() have them; what
// two fields say together is found there alone.
constexpr Nanos kLeastWait = 1ms;
constexpr Nanos kMostWait = 24h;

class Reader {
 public:
  Reader(FaultList& faults, MapReader& map) : faults_(faults), map_(map) {}

  template <class Number>
  void number(std::string_view field, std::uint64_t least, std::uint64_t most, Number& out) {
    const auto at = map_.get(field);
    if (!at) return;
    if (const auto value = read_integer(faults_, *at, least, most))
      out = static_cast<std::uint32_t>(*value);
  }
  template <class Time>
  void time(std::string_view field, Nanos least, Nanos most, Time& out) {
    const auto at = map_.get(field);
    if (!at) return;
    if (const auto value = read_duration(faults_, *at, least, most)) out = *value;
  }
  template <class Number>
  void percent(std::string_view field, std::uint64_t least, std::uint64_t most, Number& out) {
    const auto at = map_.get(field);
    if (!at) return;
    if (const auto value = read_percent(faults_, *at, least, most))
      out = static_cast<std::uint32_t>(std::lround(*value * 100));
  }
  // `off` takes a rule away that stands by default.
  bool is_off(std::string_view field) {
    const auto at = map_.get(field);
    return at && at->node->is_scalar() && at->node->text == "off";
  }

 private:
  FaultList& faults_;
  MapReader& map_;
};

// How a policy file spells the fields that the configuration spells otherwise.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kSpelling{{
    {"failure_percent", "failure_rate"},
    {"slow_percent", "slow_rate"},
    {"jitter_percent", "jitter"},
    {"ramp.start_percent", "ramp.start"},
    {"ramp.growth_percent", "ramp.growth"},
}};

// `path` of a fault below `at`: the node that it is about, or `at` where the file does not say it.
void place_fault(FaultList& faults, const Value& at, const ConfigFault& fault) {
  std::string_view field = fault.field;
  std::string allowed = fault.allowed;
  for (const auto& [config, file] : kSpelling) {
    if (field == config) field = file;
    for (std::size_t at_word = 0; (at_word = allowed.find(config, at_word)) != allowed.npos;)
      allowed.replace(at_word, config.size(), file);
  }
  const YamlNode* node = at.node;
  std::string_view rest = field;
  while (node != nullptr && node->is_map() && !rest.empty()) {
    const std::size_t dot = rest.find('.');
    node = node->find(rest.substr(0, dot));
    rest = dot == rest.npos ? std::string_view{} : rest.substr(dot + 1);
  }
  const std::string place = at.path + "." + std::string(field);
  if (node != nullptr && node->is_scalar() && rest.empty())
    faults.add(*node, place, fault.problem, allowed);
  else
    faults.add_silent(*at.node, place, "is " + fault.value + ", which " + fault.problem, allowed);
}

void read_window(FaultList& faults, const Value& at, BreakerConfig& config) {
  MapReader map(faults, at, "a window", {"calls", "length", "buckets"});
  if (!map.is_map()) return;
  Reader read(faults, map);
  if (map.has("calls")) {
    LastCalls calls;
    read.number("calls", 1, 10'000, calls.calls);
    config.window = calls;
    if (map.has("length") || map.has("buckets"))
      faults.add_silent(*at.node, at.path, "speaks of calls and of time",
                        "{calls: N}, or {length: 10s, buckets: 10}");
    return;
  }
  LastTime time;
  read.time("length", 1s, 1h, time.length);
  read.number("buckets", 2, 60, time.buckets);
  config.window = time;
}

void read_ramp(FaultList& faults, const Value& at, BreakerRamp& ramp) {
  MapReader map(faults, at, "a ramp", {"start", "growth", "step", "minimum_calls", "strikes"});
  if (!map.is_map()) return;
  Reader read(faults, map);
  read.percent("start", 1, 100, ramp.start_percent);
  read.percent("growth", 101, 1'000, ramp.growth_percent);
  read.time("step", kLeastWait, 1h, ramp.step);
  read.number("minimum_calls", 1, 10'000, ramp.minimum_calls);
  read.number("strikes", 1, 100, ramp.strikes);
}

BreakerSpec read_breaker(FaultList& faults, const std::string& name, const Value& at) {
  BreakerSpec out{.name = name};
  MapReader map(faults, at, "a breaker",
                {"consecutive_failures",
                 "failure_rate",
                 "slow_rate",
                 "slow_call",
                 "window",
                 "minimum_calls",
                 "open_wait",
                 "max_open_wait",
                 "jitter",
                 "forget_after",
                 "max_retry_after",
                 "probes",
                 "probes_in_flight",
                 "probe_successes",
                 "probe_deadline",
                 "expired_probe",
                 "max_half_open",
                 "ramp",
                 "shadow",
                 "shared"});
  if (!map.is_map()) return out;
  const std::size_t before = faults.count();
  BreakerConfig& config = out.config;
  Reader read(faults, map);
  read.number("consecutive_failures", 1, 10'000, config.consecutive_failures);
  if (read.is_off("failure_rate"))
    config.failure_percent.reset();
  else
    read.percent("failure_rate", 1, 100, config.failure_percent);
  read.percent("slow_rate", 1, 100, config.slow_percent);
  read.time("slow_call", 1us, 1h, config.slow_call);
  if (const auto window = map.get("window")) read_window(faults, *window, config);
  read.number("minimum_calls", 1, 10'000, config.minimum_calls);
  read.time("open_wait", kLeastWait, kMostWait, config.open_wait);
  read.time("max_open_wait", kLeastWait, kMostWait, config.max_open_wait);
  read.percent("jitter", 0, 50, config.jitter_percent);
  read.time("forget_after", kLeastWait, kMostWait, config.forget_after);
  read.time("max_retry_after", kLeastWait, kMostWait, config.max_retry_after);
  read.number("probes", 1, 1'000, config.probes);
  // What is not said follows from how many probes there are.
  if (map.has("probes")) config.probe_successes = config.probes;
  read.number("probes_in_flight", 1, 100, config.probes_in_flight);
  read.number("probe_successes", 1, 1'000, config.probe_successes);
  read.time("probe_deadline", kLeastWait, 1h, config.probe_deadline);
  if (const auto expired = map.get("expired_probe"))
    config.expired_probe = read_choice<ExpiredProbe>(faults, *expired,
                                                     {{"fails", ExpiredProbe::fails},
                                                      {"is_ignored", ExpiredProbe::is_ignored}})
                               .value_or(config.expired_probe);
  read.time("max_half_open", kLeastWait, kMostWait, config.max_half_open);
  if (read.is_off("ramp"))
    config.ramp.reset();
  else if (const auto ramp = map.get("ramp"))
    read_ramp(faults, *ramp, *config.ramp);
  if (const auto shadow = map.get("shadow"))
    out.shadow = read_bool(faults, *shadow).value_or(false);
  if (const auto shared = map.get("shared"))
    out.shared = read_bool(faults, *shared).value_or(false);
  if (faults.count() == before)
    for (const ConfigFault& fault : check_breaker_config(config)) place_fault(faults, at, fault);
  return out;
}

void read_by(FaultList& faults, const Value& at, const std::vector<std::string>& inputs,
             ConcurrencySpec& out) {
  const std::size_t before = faults.count();
  const std::vector<Value> items = read_list(faults, at, kMaxSources, Lone::is_a_list_of_one);
  if (items.empty() && faults.count() == before)
    faults.add_silent(*at.node, at.path, "names no source",
                      "a source or a list of them; without `by` one limit for all");
  for (const Value& item : items) {
    const auto text = read_text(faults, item);
    if (!text) continue;
    Problem problem;
    const auto source = parse_source(*text, inputs, problem);
    if (!source)
      faults.add(*item.node, item.path, problem.what, problem.allowed);
    else if (std::find(out.by.begin(), out.by.end(), *source) != out.by.end())
      faults.add(*item.node, item.path, "stands twice", "each source once");
    else
      out.by.push_back(*source);
  }
}

void read_expect(FaultList& faults, const Value& at, ConcurrencySpec& out) {
  MapReader map(faults, at, "an expected load", {"per_second", "p99"});
  if (!map.is_map()) return;
  ExpectedLoad load;
  const auto rate = map.get("per_second");
  const auto p99 = map.get("p99");
  if (!rate || !p99) {
    faults.add_silent(*at.node, at.path, "needs a rate and a time",
                      "{per_second: 2000, p99: 40ms}");
    return;
  }
  load.per_second = read_integer(faults, *rate, 1, 1'000'000'000).value_or(0);
  load.p99 = read_duration(faults, *p99, 1us, 1h).value_or(0ns);
  if (load.per_second == 0 || load.p99 == 0ns) return;
  out.expect = load;
  if (load.under_way() > out.config.limit && out.config.limit > 0)
    faults.warn(*at.node, at.path,
                "is more than the limit: " + std::to_string(load.per_second) +
                    " calls a second of " + to_text(load.p99) + " are " +
                    std::to_string(load.under_way()) + " under way at once, and the limit is " +
                    std::to_string(out.config.limit),
                "a limit of " + std::to_string(load.under_way() + (load.under_way() * 3 + 9) / 10) +
                    ", which leaves room for bursts");
}

ConcurrencySpec read_limit_of(FaultList& faults, const std::string& name, const Value& at,
                              const std::vector<std::string>& inputs) {
  ConcurrencySpec out{.name = name};
  MapReader map(faults, at, "a concurrency limit",
                {"limit", "by", "lease", "max_hold", "max_waiting", "expect", "shared"});
  if (!map.is_map()) return out;
  const std::size_t before = faults.count();
  Reader read(faults, map);
  if (!map.has("limit"))
    faults.add_silent(*at.node, at.path, "has no limit", "limit: N, what may be under way at once");
  read.number("limit", 1, 1'000'000, out.config.limit);
  if (const auto by = map.get("by")) read_by(faults, *by, inputs, out);
  read.time("lease", 100ms, 1h, out.config.lease);
  read.time("max_hold", 100ms, kMostWait, out.config.max_hold);
  read.number("max_waiting", 0, 100'000, out.config.max_waiting);
  if (faults.count() == before)
    for (const ConfigFault& fault : check_concurrency_config(out.config))
      place_fault(faults, at, fault);
  if (const auto shared = map.get("shared"))
    out.shared = read_bool(faults, *shared).value_or(false);
  if (const auto expect = map.get("expect")) read_expect(faults, *expect, out);
  return out;
}

// A map of names; `read` reads what each names.
template <class Read>
void read_named(FaultList& faults, const Value& at, std::string_view what, Read read) {
  if (!at.node->is_map()) {
    faults.add(*at.node, at.path, "is no map of " + std::string(what), "NAME: {...}");
    return;
  }
  if (at.node->fields.empty()) {
    faults.add_silent(*at.node, at.path, "names none",
                      "NAME: {...}, or nothing of the kind at all");
    return;
  }
  if (at.node->fields.size() > kMaxSafeguards) {
    faults.add_silent(*at.node, at.path,
                      "has " + std::to_string(at.node->fields.size()) + " " + std::string(what),
                      "at most " + std::to_string(kMaxSafeguards));
    return;
  }
  for (const auto& [key, node] : at.node->fields) {
    const std::string path = joined(at.path, key->text);
    // A name is a part of a path: POST /v1/breaker/NAME/admit.
    const bool good = is_route_name(key->text) && key->text.find('/') == std::string::npos;
    if (!good)
      faults.add(*key, path, "cannot name one of the " + std::string(what),
                 "1 to 128 letters, digits, and any of \"_-.:\"");
    else if (node->kind == YamlNode::Kind::null)
      faults.add_silent(*key, path, "has no value", "{} for the defaults, or its fields");
    else
      read(key->text, Value{node, path});
  }
}

}  // namespace

std::uint64_t ExpectedLoad::under_way() const noexcept {
  const Wide calls = static_cast<Wide>(per_second) * static_cast<std::uint64_t>(p99.count());
  return static_cast<std::uint64_t>((calls + 999'999'999) / 1'000'000'000);
}

std::vector<BreakerSpec> read_breakers(FaultList& faults, const Value& at) {
  std::vector<BreakerSpec> out;
  read_named(faults, at, "breakers", [&](const std::string& name, const Value& value) {
    out.push_back(read_breaker(faults, name, value));
  });
  return out;
}

std::vector<ConcurrencySpec> read_concurrency(FaultList& faults, const Value& at,
                                              const std::vector<std::string>& inputs) {
  std::vector<ConcurrencySpec> out;
  read_named(faults, at, "concurrency limits", [&](const std::string& name, const Value& value) {
    out.push_back(read_limit_of(faults, name, value, inputs));
  });
  return out;
}

}  // namespace weir::policy
