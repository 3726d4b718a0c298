#include "drill/run/recorder.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "drill/run/playbook.h"

namespace weir::drill {
namespace {

using namespace std::chrono_literals;

void sleep_until(MonoTime at) {
  std::this_thread::sleep_until(
      std::chrono::time_point_cast<std::chrono::steady_clock::duration>(at));
}

// Does to the store what the scenario says, when it says so.
Result<void> act_out(Stage& stage, const Scenario& scenario, MonoTime begin,
                     const OnPhase& on_phase, std::optional<MonoTime>& struck) {
  Playbook book(scenario);
  for (const Playbook::Move& move : book.moves()) {
    const Phase& phase = scenario.phases[move.phase];
    sleep_until(begin + move.at);
    if (move.begins && on_phase) on_phase(phase, move.at, scenario.length());
    book.make(move, stage.proxy());
    if (!move.begins) continue;
    if (auto acted = stage.act(phase); !acted) return acted;
    if (!struck && !phase.is_calm()) struck = Clock::real().mono();
  }
  return {};
}

}  // namespace

std::optional<Nanos> calm_from(const Scenario& scenario) {
  Nanos at{0};
  std::optional<Nanos> from;
  bool was_calm = true;
  for (const Phase& phase : scenario.phases) {
    if (phase.is_calm() && !was_calm) from = at;
    if (!phase.is_calm()) from.reset();
    was_calm = phase.is_calm();
    at += phase.length;
  }
  return from;
}

Recorder::Recorder(DrillReport& report, CallPlan& plan, Asked asked, Spared spared)
    : report_(report), plan_(plan), asked_(asked), spared_(std::move(spared)) {
  const Scenario& scenario = report.scenario;
  report_.tallies.assign(scenario.phases.size(), std::vector<RouteTally>(report_.routes.size()));
  report_.moments.resize(static_cast<std::size_t>(scenario.length() / DrillReport::kMoment) + 1);
  admissions_.resize(report_.routes.size());
}

Result<void> Recorder::run(Stage& stage, const HttpLoad::Options& options,
                           const OnPhase& on_phase) {
  wall_offset_ = Clock::real().now().time_since_epoch() - Clock::real().mono().time_since_epoch();
  begin_ = Clock::real().mono() + 50ms;
  plan_.begin(begin_);
  HttpLoad load(options);
  Result<void> loaded;
  std::thread caller([&] {
    loaded = load.run([this](HttpLoad::Call& call) { return plan_.next(call); },
                      [this](const HttpOutcome& outcome) { take(outcome); });
  });
  Result<void> acted = act_out(stage, report_.scenario, begin_, on_phase, struck_);
  caller.join();
  if (!acted) return acted;
  return loaded;
}

std::optional<Instant> Recorder::struck() const {
  if (!struck_) return std::nullopt;
  return wall(*struck_);
}

std::optional<Nanos> Recorder::first_degraded() const {
  std::optional<MonoTime> first;
  for (const MonoTime at : degraded_) {
    if (struck_ && at >= *struck_ && (!first || at < *first)) first = at;
  }
  if (!first) return std::nullopt;
  return *first - *struck_;
}

std::size_t Recorder::phase_at(Nanos passed) const {
  const auto& phases = report_.scenario.phases;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    if (passed < phases[i].length) return i;
    passed -= phases[i].length;
  }
  return phases.size() - 1;
}

// In the caller's thread, alone until it has ended.
void Recorder::take(const HttpOutcome& outcome) {
  plan_.take(outcome);
  const Nanos passed = outcome.due - begin_;
  const Nanos waited = outcome.answered - outcome.due;
  const std::size_t route = CallPlan::route_of(outcome.tag);
  const std::uint32_t client = CallPlan::client_of(outcome.tag);
  const ClientKind kind = plan_.kind_of(client);
  RouteTally& tally = report_.tallies[phase_at(passed)][route];
  const auto place = static_cast<std::size_t>(passed / DrillReport::kMoment);
  DrillReport::Moment& moment = report_.moments[std::min(place, report_.moments.size() - 1)];
  Tally& of_kind = tally.kinds[static_cast<std::size_t>(kind)];
  tally.all.add(outcome);
  of_kind.add(outcome);
  moment.slowest = std::max(moment.slowest, waited);
  const bool allowed = outcome.status >= 200 && outcome.status < 400;
  if (kind != ClientKind::hostile) {
    samples_.push_back({.due = passed, .waited = waited, .allowed = allowed});
  }
  if (allowed) {
    ++moment.allowed;
    admissions_[route].push_back(
        {.client = client, .sent = wall(outcome.sent), .answered = wall(outcome.answered)});
  } else if (outcome.status == 429) {
    ++moment.limited;
  } else if (outcome.status == 503) {
    ++moment.refused;
  } else {
    ++moment.failed;
    return;
  }
  if (asked_ == Asked::stranger) return;
  const std::string rung(outcome.rung.empty() ? "store" : outcome.rung);
  if (allowed && rung != "store") {
    ++tally.all.by_itself;
    ++of_kind.by_itself;
  }
  ++tally.all.rungs[rung];
  ++of_kind.rungs[rung];
  ++moment.rungs[rung];
  const bool degraded = outcome.status != 429 ? rung != "store" : rung == "share";
  if (degraded) {
    ++moment.degraded;
    degraded_.push_back(outcome.answered);
  }
  if (!spared_ || report_.scenario.phases[phase_at(passed)].is_calm()) return;
  if (!spared_(route, client)) return;
  ++spared_answers_.all;
  if (degraded) ++spared_answers_.degraded;
}

}  // namespace weir::drill
