#include "drill/run/drill.h"

#include <algorithm>
#include <charconv>
#include <thread>

#include "breaker/probe_breaker.h"
#include "drill/run/bound_check.h"
#include "drill/run/call_plan.h"
#include "drill/run/in_words.h"
#include "drill/run/rig.h"
#include "policy/model.h"
#include "policy/store_url.h"
#include "weir/policy.h"

namespace weir::drill {
namespace {

using namespace std::chrono_literals;

// What a busy machine may add to a time without that being Weir's doing.
constexpr Nanos kNoise = 250ms;
// So long without a degraded answer means that the store decides again.
constexpr Nanos kSettled = 500ms;
// After which a client that lost its connection tries again at the latest.
constexpr Nanos kReconnect = 2s;

// The number of a sample without a timestamp, as `name{labels} 3`; 0 where there is none.
std::uint64_t sample_of(const std::string& metrics, const std::string& start) {
  const std::size_t at = metrics.find("\n" + start);
  if (at == std::string::npos) return 0;
  const std::size_t blank = metrics.find(' ', at + 1 + start.size() - 1);
  std::uint64_t value = 0;
  if (blank != std::string::npos) {
    std::from_chars(metrics.data() + blank + 1, metrics.data() + metrics.size(), value);
  }
  return value;
}

class Run {
 public:
  Run(const DrillOptions& options, const Scenario& scenario, const policy::Model& model,
      const OnPhase& on_phase)
      : model_(model),
        on_phase_(on_phase),
        plan_(model, scenario, options.rate, options.clients, options.seed) {
    report_.scenario = scenario;
    for (const policy::Route* route : plan_.routes()) report_.routes.push_back(route->name);
    report_.tallies.assign(scenario.phases.size(), std::vector<Tally>(report_.routes.size()));
    report_.moments.resize(static_cast<std::size_t>(scenario.length() / DrillReport::kMoment) + 1);
    admissions_.resize(report_.routes.size());
  }

  bool has_routes() const noexcept { return !report_.routes.empty(); }

  Result<DrillReport> run(Rig& rig) {
    wall_offset_ = Clock::real().now().time_since_epoch() - Clock::real().mono().time_since_epoch();
    begin_ = Clock::real().mono() + 50ms;
    plan_.begin(begin_);
    HttpLoad load({.port = rig.http_port()});
    std::thread caller([&] {
      load.run([this](HttpLoad::Call& call) { return plan_.next(call); },
               [this](const HttpOutcome& outcome) { take(outcome); });
    });
    const Result<void> acted = act_out(rig);
    caller.join();
    if (!acted) return acted.error();
    conclude(rig);
    return std::move(report_);
  }

 private:
  // Does to the store what the scenario says, when it says so.
  Result<void> act_out(Rig& rig) {
    MonoTime at = begin_;
    for (const Phase& phase : report_.scenario.phases) {
      std::this_thread::sleep_until(
          std::chrono::time_point_cast<std::chrono::steady_clock::duration>(at));
      if (on_phase_) on_phase_(phase, at - begin_, report_.scenario.length());
      rig.proxy().set(phase.faults);
      if (phase.reset) rig.proxy().reset_connections();
      if (auto acted = rig.act(phase.server); !acted) return acted;
      const MonoTime end = at + phase.length;
      if (phase.flap > Nanos::zero()) flap(rig, phase, at, end);
      at = end;
    }
    std::this_thread::sleep_until(
        std::chrono::time_point_cast<std::chrono::steady_clock::duration>(at));
    rig.proxy().set({});
    return {};
  }

  void flap(Rig& rig, const Phase& phase, MonoTime at, MonoTime end) {
    for (bool fault = false; (at += phase.flap) < end; fault = !fault) {
      std::this_thread::sleep_until(
          std::chrono::time_point_cast<std::chrono::steady_clock::duration>(at));
      rig.proxy().set(fault ? phase.faults : ProxyFaults{});
      if (fault && phase.reset) rig.proxy().reset_connections();
    }
  }

  std::size_t phase_at(Nanos passed) const {
    const auto& phases = report_.scenario.phases;
    for (std::size_t i = 0; i < phases.size(); ++i) {
      if (passed < phases[i].length) return i;
      passed -= phases[i].length;
    }
    return phases.size() - 1;
  }

  Instant wall(MonoTime at) const { return Instant{at.time_since_epoch() + wall_offset_}; }

  // In the caller's thread, alone until it has ended.
  void take(const HttpOutcome& outcome) {
    const Nanos passed = outcome.due - begin_;
    const Nanos waited = outcome.answered - outcome.due;
    const std::size_t route = CallPlan::route_of(outcome.tag);
    Tally& tally = report_.tallies[phase_at(passed)][route];
    const auto place = static_cast<std::size_t>(passed / DrillReport::kMoment);
    DrillReport::Moment& moment = report_.moments[std::min(place, report_.moments.size() - 1)];
    ++tally.calls;
    tally.latency.add(waited);
    moment.slowest = std::max(moment.slowest, waited);
    const std::string rung(outcome.rung.empty() ? "store" : outcome.rung);
    const bool degraded = outcome.status != 429 ? rung != "store" : rung == "share";
    switch (outcome.status) {
      case 200:
        ++tally.allowed;
        ++moment.allowed;
        admissions_[route].push_back({.client = CallPlan::client_of(outcome.tag),
                                      .sent = wall(outcome.sent),
                                      .answered = wall(outcome.answered)});
        break;
      case 429:
        ++tally.limited;
        ++moment.limited;
        break;
      case 503:
        ++tally.refused;
        ++moment.refused;
        break;
      case 0:
        ++tally.unanswered;
        ++moment.failed;
        return;
      default:
        ++tally.other;
        ++moment.failed;
        return;
    }
    ++tally.rungs[rung];
    if (degraded) ++moment.degraded;
  }

  // When the last fault ended.
  std::optional<Nanos> calm_from() const {
    Nanos at{0};
    std::optional<Nanos> from;
    bool was_calm = true;
    for (const Phase& phase : report_.scenario.phases) {
      if (phase.is_calm() && !was_calm) from = at;
      if (!phase.is_calm()) from.reset();
      was_calm = phase.is_calm();
      at += phase.length;
    }
    return from;
  }

  // The end of the last moment in which more than a stray answer was not the store's: a busy
  // machine misses a deadline now and then.
  Nanos last_degraded() const {
    for (std::size_t i = report_.moments.size(); i-- > 0;) {
      const DrillReport::Moment& moment = report_.moments[i];
      const std::uint32_t all = moment.allowed + moment.limited + moment.refused;
      if (moment.degraded * 10 > all) return DrillReport::kMoment * (i + 1);
    }
    return Nanos::zero();
  }

  void conclude(Rig& rig) {
    for (std::size_t i = 0; i < plan_.routes().size(); ++i) {
      for (BoundCheck& check :
           check_bounds(model_, *plan_.routes()[i], admissions_[i], report_.scenario)) {
        report_.bounds.push_back(std::move(check));
      }
    }
    const std::string metrics = rig.metrics();
    report_.breaker_openings =
        sample_of(metrics, "weir_breaker_transitions_total{shard=\"0\",to=\"open\"}");
    if (const auto from = calm_from()) {
      // Where it was still degraded at the end nobody knows how long it would have been.
      const Nanos end = report_.scenario.length();
      const Nanos last = last_degraded();
      report_.came_back = end - last >= kSettled;
      report_.recovery = std::max(last - *from, Nanos::zero());
    }
    const bool ended = rig.stop();
    const std::string log = rig.log();
    report_.log_lines = static_cast<std::size_t>(std::count(log.begin(), log.end(), '\n'));
    expect(ended);
  }

  void expect(bool ended) {
    Tally all;
    Tally first;
    Tally worst;
    for (std::size_t i = 0; i < report_.tallies.size(); ++i) {
      Tally of_phase;
      for (const Tally& tally : report_.tallies[i]) of_phase.add(tally);
      all.add(of_phase);
      if (i == 0) first = of_phase;
    }
    add("every call is answered", all.unanswered == 0,
        std::to_string(all.unanswered) + " of " + std::to_string(all.calls) + " were not");
    add("every answer is 200, 429 or 503", all.other == 0,
        std::to_string(all.other) + " of " + std::to_string(all.calls) + " were not");
    add("at most one in a hundred is refused before the faults", first.refused * 100 <= first.calls,
        std::to_string(first.refused) + " of " + std::to_string(first.calls) + " were");
    const Nanos patience = model_.store.deadline + kNoise;
    add("99 % are answered within the deadline and " + in_words(kNoise),
        all.latency.quantile(0.99) <= patience,
        in_words(all.latency.quantile(0.99)) + " of " + in_words(patience) + ", the slowest " +
            in_words(all.latency.max()));
    const auto broken = std::count_if(report_.bounds.begin(), report_.bounds.end(),
                                      [](const BoundCheck& check) { return !check.held(); });
    add("no key is admitted more than its bound", broken == 0,
        std::to_string(broken) + " of " + std::to_string(report_.bounds.size()) +
            " rules were broken");
    expect_recovery();
    add("weir ends when it is told to", ended, ended ? "it did" : "it did not");
  }

  void expect_recovery() {
    if (!report_.recovery) return;
    const policy::StoreSpec& spec = model_.store;
    const Nanos within = spec.breaker.max_cooldown +
                         std::chrono::duration_cast<Nanos>(
                             std::chrono::duration<double>(spec.breaker.jitter) *
                             std::chrono::duration<double>(spec.breaker.max_cooldown).count()) +
                         spec.recovery.step * spec.recovery.steps + kReconnect + kNoise;
    add("the store decides again within " + in_words(within),
        report_.came_back && *report_.recovery <= within,
        report_.came_back ? in_words(*report_.recovery) : "it did not while the drill looked");
  }

  void add(std::string text, bool met, std::string found) {
    report_.expectations.push_back({std::move(text), met, std::move(found)});
  }

  const policy::Model& model_;
  const OnPhase& on_phase_;
  CallPlan plan_;
  DrillReport report_;
  std::vector<std::vector<Admission>> admissions_;  // [route]
  MonoTime begin_{};
  Nanos wall_offset_{0};
};

}  // namespace

void Tally::add(const Tally& more) {
  calls += more.calls;
  allowed += more.allowed;
  limited += more.limited;
  refused += more.refused;
  other += more.other;
  unanswered += more.unanswered;
  for (const auto& [rung, count] : more.rungs) rungs[rung] += count;
  latency.merge(more.latency);
}

bool DrillReport::good() const noexcept {
  return std::all_of(expectations.begin(), expectations.end(),
                     [](const Expectation& each) { return each.met; });
}

Result<DrillReport> run_drill(const DrillOptions& options, const Scenario& scenario,
                              const OnPhase& on_phase) {
  Result<Policy> loaded = Policy::load(options.policy);
  if (!loaded) return std::move(loaded).error();
  // Any server will do for what is looked at here; the rig names its own.
  Result<Policy> policy = loaded->with_store("redis://127.0.0.1:6379/0");
  if (!policy) return std::move(policy).error();
  Run run(options, scenario, policy->model(), on_phase);
  if (!run.has_routes()) {
    return Error{ErrorCode::invalid_argument,
                 options.policy + ": has no route with limits; there is nothing to drill"};
  }
  auto rig = Rig::start({.policy = options.policy, .weir_program = options.weir_program});
  if (!rig) return std::move(rig).error();
  return run.run(**rig);
}

}  // namespace weir::drill
