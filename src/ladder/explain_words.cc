#include "ladder/explain_words.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "ladder/bound.h"
#include "limit/parts.h"
#include "policy/duration.h"

namespace weir::ladder {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t ns;
};
constexpr Unit kUnits[] = {{"day", 86'400'000'000'000},
                           {"hour", 3'600'000'000'000},
                           {"minute", 60'000'000'000},
                           {"second", 1'000'000'000}};

// An interval rounded up to three figures, for rates that no unit divides: "8.58s".
std::string rounded(std::int64_t ns) {
  constexpr Unit kShort[] = {{"s", 1'000'000'000}, {"ms", 1'000'000}, {"us", 1'000}, {"ns", 1}};
  for (const Unit& unit : kShort) {
    if (ns < unit.ns) continue;
    if (ns % unit.ns == 0 || ns / unit.ns >= 100)
      return std::to_string((ns + unit.ns - 1) / unit.ns).append(unit.name);
    const std::int64_t scale = ns / unit.ns >= 10 ? 10 : 100;
    const std::int64_t scaled = (ns * scale + unit.ns - 1) / unit.ns;
    std::string digits = std::to_string(scaled / scale) + ".";
    const std::string fraction = std::to_string(scaled % scale);
    digits.append(scale == 100 && fraction.size() == 1 ? "0" : "").append(fraction);
    return digits.append(unit.name);
  }
  return "0s";
}

std::string calendar_name(const limit::Numbers& numbers) {
  constexpr std::array<std::string_view, 5> kNames = {"", "day", "week", "month", "year"};
  const std::string name(kNames[static_cast<std::size_t>(numbers.calendar)]);
  return numbers.calendar_count == 1 ? name
                                     : std::to_string(numbers.calendar_count) + " " + name + "s";
}

std::string gcra_in_words(const limit::Numbers& numbers) {
  const std::string period = interval_in_words(Nanos(numbers.period_ns));
  return std::to_string(numbers.burst) + " at once, then one every " +
         rounded(numbers.interval_ns) + "; at most " + std::to_string(most_in_window(numbers)) +
         " in the worst " + period;
}

// Where a month or year was asked for but the algorithm has no calendar.
std::string nominal_note(const policy::Rule& rule) {
  if (rule.numbers.calendar != limit::Calendar::none) return {};
  if (rule.per.unit == policy::PeriodUnit::month) return "; a month counts as 30 days";
  if (rule.per.unit == policy::PeriodUnit::year) return "; a year counts as 365 days";
  return {};
}

}  // namespace

std::string interval_in_words(Nanos interval) {
  for (const Unit& unit : kUnits) {
    if (interval.count() % unit.ns != 0) continue;
    const std::int64_t count = interval.count() / unit.ns;
    if (count == 1) return std::string(unit.name);
    return std::to_string(count).append(" ").append(unit.name).append("s");
  }
  return policy::to_text(interval);
}

std::string counted_in_words(const policy::Rule& rule, Nanos clocks_apart) {
  const limit::Numbers& numbers = rule.numbers;
  if (numbers.limit == 0) return "nothing passes, whatever happens";
  const std::string period = interval_in_words(Nanos(numbers.period_ns));
  const std::string worst =
      std::to_string(most_in(numbers, Nanos(numbers.period_ns) + clocks_apart));
  const std::string most = std::to_string(numbers.limit);
  switch (numbers.algorithm) {
    case Algorithm::gcra:
      return gcra_in_words(numbers) + nominal_note(rule) +
             (clocks_apart.count() > 0 ? "; by workers' own clocks " + worst : "");
    case Algorithm::sliding_log:
      return "at most " + most + " in any " + period +
             (clocks_apart.count() > 0 ? " of a worker's own clock; " + worst + " in the worst one"
                                       : ", exactly") +
             nominal_note(rule);
    case Algorithm::fixed_window:
      if (numbers.calendar != limit::Calendar::none)
        return "at most " + most + " in each " + calendar_name(numbers) + " (UTC)";
      return "at most " + most + " in each " + period + "; " + worst +
             " in the worst one, around the turn of two";
    case Algorithm::sliding_window:
      return "at most " + most + " in a " + period +
             ", the one before weighted in; never more than " + worst + nominal_note(rule);
  }
  return {};
}

std::string parts_in_words(const policy::Route& route, std::uint32_t workers) {
  if (route.rules.empty()) return {};
  if (workers <= 1)
    return "One worker holds the whole of each limit and goes on counting by itself.";
  const policy::Rule& rule = route.rules.front();
  std::string out = "Each of " + std::to_string(workers) + " workers admits its part: ";
  constexpr std::uint32_t kShown = 5;
  for (std::uint32_t rank = 0; rank < workers && rank < kShown; ++rank)
    out +=
        (rank > 0 ? ", " : "") + std::to_string(limit::part_of(rule.numbers, rule.numbers.limit,
                                                               {.rank = rank, .members = workers}));
  if (workers > kShown) out += ", ...";
  return out + " of " + rule.name + ".";
}

std::string overspend_in_words(const policy::Route& route) {
  if (!route.overspend) return "Beyond it nothing is served.";
  const std::string recorded = ", recorded durably and settled when the store is back.";
  switch (route.overspend->mode) {
    case policy::OverspendMode::cap:
      return "Beyond it metered rules serve up to " + std::to_string(route.overspend->cap) +
             " more units a key and window" + recorded;
    case policy::OverspendMode::bill:
      return "Beyond it metered rules serve on under the ceiling" + recorded;
    case policy::OverspendMode::forgive:
      return "Beyond it metered rules serve on under the ceiling, and what they served is "
             "forgiven.";
  }
  return {};
}

std::string recorded_in_words(const policy::Model& model, const policy::Route& route) {
  const bool metered = std::any_of(route.rules.begin(), route.rules.end(),
                                   [](const policy::Rule& rule) { return rule.meter; });
  if (!metered || route.when_store_fails != FailurePolicy::settle) return {};
  if (!model.journal) {
    return model.store.url.starts_with("memory:")
               ? "The policy names no journal, so no usage is recorded."
               : "The policy names no journal, which a route that settles needs on "
                 "this store: it is refused at start.";
  }
  const std::string away =
      "Usage is recorded in " + model.journal->folder +
      ": without the store before the answer leaves, so that none of it is lost; where it cannot "
      "be recorded, the call is not served.";
  if (!route.journal_always) return away + " While the store answers, none is recorded.";
  return away + " While the store answers it follows within " +
         policy::to_text(model.journal->within) +
         ": a crash loses at most what was served in that time; or, while the disk takes nothing, "
         "what waits in memory: up to " +
         std::to_string(policy::kMostWaiting) + " events, and then such calls are refused.";
}

std::string reservations_in_words(const policy::Route& route) {
  if (!route.reservations) return {};
  const policy::ReservationRule& rule = *route.reservations;
  std::string out = "A reservation that nobody settles ends ";
  out +=
      rule.expire ? "after " + policy::to_text(*rule.expire) : "after the time that its call says";
  switch (rule.on_expiry) {
    case OnExpiry::full:
      return out + ", and all that was reserved is billed";
    case OnExpiry::last_heartbeat:
      return out + ", and what its last heartbeat said is billed";
    case OnExpiry::zero:
      return out + ", and nothing is billed";
  }
  return out;
}

bool denies_nobody(const policy::Route& route) {
  return !route.rules.empty() &&
         (route.shadow || std::all_of(route.rules.begin(), route.rules.end(),
                                      [](const policy::Rule& rule) { return rule.shadow; }));
}

std::string match_in_words(const policy::Match& match) {
  std::string out;
  for (const std::string& method : match.methods) out += (out.empty() ? "" : ",") + method;
  if (!match.host.empty() || !match.path.empty()) {
    if (!out.empty()) out += ' ';
    out += match.host + match.path + (match.prefix ? "*" : "");
  }
  return out;
}

std::string policy_reason(const policy::Route& route) {
  if (route.failure_policy_given || !route.protects) return "when_store_fails";
  return "protects " + std::string(to_string(*route.protects));
}

}  // namespace weir::ladder
