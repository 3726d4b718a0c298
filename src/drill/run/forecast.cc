#include "drill/run/forecast.h"

#include <algorithm>
#include <chrono>

#include "drill/run/recorder.h"
#include "ladder/outage.h"

namespace weir::drill {
namespace {

using namespace std::chrono_literals;

std::uint64_t ms(Nanos time) {
  return static_cast<std::uint64_t>(
      std::chrono::ceil<std::chrono::milliseconds>(std::max(time, Nanos{0})).count());
}

// When the first fault began.
Nanos faults_from(const Scenario& scenario) {
  Nanos at{0};
  for (const Phase& phase : scenario.phases) {
    if (!phase.is_calm()) break;
    at += phase.length;
  }
  return at;
}

// From the first fault until the end of the last moment in which the store did not decide
// everything that it should.
Nanos without_store(const DrillReport& report, Nanos from) {
  Nanos last = from;
  for (std::size_t i = 0; i < report.moments.size(); ++i) {
    const Nanos end = DrillReport::kMoment * (i + 1);
    if (report.moments[i].degraded > 0 && end > from) last = end;
  }
  return last - from;
}

// The drill has one store, however many there are to be.
constexpr std::uint32_t kOneRegion = 1;

// How soon it was noticed, beside what is to be expected of calls that come at an even pace and all
// ask the store: those that a known denial answers do not, so it may take longer. Of a cluster's
// masters each has an equal part of them.
void add_detection(Forecast& out, const DrillReport& report, const policy::Model& model,
                   const DrillOptions& options) {
  const Nanos pace = std::chrono::duration_cast<Nanos>(std::chrono::duration<double>(
      static_cast<double>(options.clients) * report.scenario.shards / options.rate));
  const Nanos deadline = model.store.deadline;
  if (report.first_degraded) {
    out.rows.push_back({.what = "until an answer without the store",
                        .predicted = ms(deadline + pace / options.clients /
                                                       static_cast<int>(report.routes.size())),
                        .measured = ms(*report.first_degraded),
                        .is_time = true,
                        .is_bound = false});
  }
  if (!report.breaker_opened) return;
  const ladder::OutagePlan plan = ladder::plan_outage(
      model, 1, report.scenario.length(),
      ladder::Offered{.clients = options.clients, .requests = 1, .per = pace}, {}, kOneRegion);
  out.rows.push_back({.what = "until the breaker opened",
                      .predicted = ms(plan.detection),
                      .measured = ms(*report.breaker_opened),
                      .is_time = true,
                      .is_bound = false});
}

}  // namespace

Forecast forecast_of(const DrillReport& report, const policy::Model& model,
                     const DrillOptions& options) {
  Forecast out;
  const auto until = calm_from(report.scenario);
  if (!until) return out;
  const Nanos from = faults_from(report.scenario);
  const ladder::OutagePlan plan =
      ladder::plan_outage(model, model.store.workers.of.value_or(1), *until - from,
                          ladder::Offered{.clients = options.clients}, {}, kOneRegion);
  // A moment is as fine as the report sees.
  out.rows.push_back({.what = "without the store",
                      .predicted = ms(plan.without() + DrillReport::kMoment),
                      .measured = ms(without_store(report, from)),
                      .is_time = true});
  add_detection(out, report, model, options);
  for (std::size_t r = 0; r < report.routes.size(); ++r) {
    std::uint64_t admitted = 0;
    for (const auto& phase : report.tallies) admitted += phase[r].all.by_itself * options.cost;
    const auto planned = std::find_if(
        plan.routes.begin(), plan.routes.end(),
        [&](const ladder::OutageOfRoute& each) { return each.name == report.routes[r]; });
    if (planned == plan.routes.end()) continue;
    out.rows.push_back({.what = "admitted without it: " + report.routes[r],
                        .predicted = planned->most,
                        .measured = admitted});
  }
  return out;
}

}  // namespace weir::drill
