#include "drill/run/bound_check.h"

#include <algorithm>
#include <map>

#include "drill/run/call_plan.h"
#include "ladder/bound.h"
#include "limit/step.h"

namespace weir::drill {
namespace {

using limit::Numbers;

// In windows of their own, each call where both its ends lie.
std::uint64_t most_in_own_windows(const Numbers& numbers, const std::vector<Admission>& calls) {
  std::map<std::int64_t, std::uint64_t> windows;
  std::uint64_t most = 0;
  for (const Admission& call : calls) {
    const limit::Window window = limit::window_at(numbers, call.sent);
    if (limit::window_at(numbers, call.answered).start_ns != window.start_ns) continue;
    most = std::max(most, ++windows[window.start_ns]);
  }
  return most;
}

// In any interval of one period that begins with a call.
std::uint64_t most_in_any_period(const Numbers& numbers, const std::vector<Admission>& calls) {
  const Nanos period{numbers.period_ns};
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Instant end = calls[i].sent + period;
    std::uint64_t count = 0;
    for (std::size_t j = i; j < calls.size() && calls[j].sent < end; ++j) {
      if (calls[j].answered < end) ++count;
    }
    most = std::max(most, count);
    if (!calls.empty() && calls.back().sent < end) break;  // later beginnings hold no more
  }
  return most;
}

bool windowed(const Numbers& numbers) {
  return numbers.algorithm == Algorithm::fixed_window ||
         numbers.algorithm == Algorithm::sliding_window;
}

// What was admitted at the end of each moment, in the window or the period that stands then.
std::vector<std::uint64_t> timeline_of(const Numbers& numbers, const std::vector<Admission>& calls,
                                       Instant begin, Nanos length) {
  std::vector<std::uint64_t> counts;
  for (Instant at = begin; at <= begin + length; at += DrillReport::kMoment) {
    const Instant now = at + DrillReport::kMoment;
    Instant from = now - Nanos{numbers.period_ns};
    if (windowed(numbers)) from = Instant{Nanos{limit::window_at(numbers, at).start_ns}};
    counts.push_back(static_cast<std::uint64_t>(std::count_if(
        calls.begin(), calls.end(),
        [&](const Admission& call) { return call.sent >= from && call.answered < now; })));
  }
  return counts;
}

// Whether all clients share one counter of this rule.
bool shared_by_all(const policy::Rule& rule) {
  return std::all_of(rule.by.begin(), rule.by.end(), [](const policy::Source& source) {
    return value_of(source.text, 0) == value_of(source.text, 1);
  });
}

// What a metered rule may serve beyond the parts; absent: as much as comes.
std::optional<std::uint64_t> beyond_parts(const policy::Route& route, const policy::Rule& rule) {
  if (!rule.meter || !route.overspend) return 0;
  if (route.overspend->mode != policy::OverspendMode::cap) return std::nullopt;
  return route.overspend->cap;
}

using Keys = std::map<std::uint32_t, std::vector<Admission>>;

// What the busiest key was admitted.
void fill_in(BoundCheck& check, const Numbers& numbers, Keys& keys, Instant begin, Nanos length) {
  const std::vector<Admission>* busiest = nullptr;
  for (auto& [client, calls] : keys) {
    std::sort(calls.begin(), calls.end(),
              [](const Admission& a, const Admission& b) { return a.sent < b.sent; });
    const std::uint64_t admitted = windowed(numbers) ? most_in_own_windows(numbers, calls)
                                                     : most_in_any_period(numbers, calls);
    if (busiest == nullptr || admitted > check.admitted) busiest = &calls;
    check.admitted = std::max(check.admitted, admitted);
  }
  if (busiest != nullptr) check.timeline = timeline_of(numbers, *busiest, begin, length);
}

}  // namespace

std::vector<BoundCheck> check_bounds(const policy::Model& model, const policy::Route& route,
                                     std::span<const Admission> admissions,
                                     const Scenario& scenario, Instant begin,
                                     const Placement* placement) {
  const bool calm = std::all_of(scenario.phases.begin(), scenario.phases.end(),
                                [](const Phase& phase) { return phase.is_calm(); });
  const std::uint32_t workers = model.store.workers.of.value_or(1);
  ladder::Exposure struck{.workers = workers,
                          .cut_off = calm ? 0U : 1U,
                          .losses = scenario.losses(),
                          .ceiling = route.ceiling ? &route.ceiling->numbers : nullptr};
  const ladder::Exposure spared{.workers = workers, .ceiling = struck.ceiling};
  std::vector<BoundCheck> checks;
  for (const policy::Rule& rule : route.rules) {
    if (rule.shadow || route.shadow) continue;
    struck.overspend = beyond_parts(route, rule);
    Keys keys[2];
    for (const Admission& each : admissions) {
      const std::uint32_t key = shared_by_all(rule) ? 0 : each.client;
      keys[placement != nullptr && !placement->is_struck(rule, key) ? 1 : 0][key].push_back(each);
    }
    for (const bool is_spared : {false, true}) {
      Keys& those = keys[is_spared ? 1 : 0];
      if (those.empty() && (is_spared || placement != nullptr)) continue;
      checks.push_back({.route = route.name,
                        .rule = rule.name,
                        .spared = is_spared,
                        .limit = ladder::most_in_window(rule.numbers),
                        .most = ladder::most_admitted(rule.numbers, route.when_store_fails,
                                                      is_spared ? spared : struck)});
      fill_in(checks.back(), rule.numbers, those, begin, scenario.length());
    }
  }
  return checks;
}

}  // namespace weir::drill
