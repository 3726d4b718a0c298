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

}  // namespace

Forecast forecast_of(const DrillReport& report, const policy::Model& model,
                     const DrillOptions& options) {
  Forecast out;
  const auto until = calm_from(report.scenario);
  if (!until) return out;
  const Nanos from = faults_from(report.scenario);
  const ladder::OutagePlan plan =
      ladder::plan_outage(model, model.store.workers.of.value_or(1), *until - from,
                          ladder::Offered{.clients = options.clients});
  // A moment is as fine as the report sees.
  out.rows.push_back({.what = "without the store",
                      .predicted = ms(plan.without() + DrillReport::kMoment),
                      .measured = ms(without_store(report, from)),
                      .is_time = true});
  for (std::size_t r = 0; r < report.routes.size(); ++r) {
    std::uint64_t admitted = 0;
    for (const auto& phase : report.tallies) admitted += phase[r].all.by_itself;
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
