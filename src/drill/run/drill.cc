#include "drill/run/drill.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fstream>
#include <numeric>
#include <optional>
#include <sstream>
#include <utility>

#include "drill/run/bill_check.h"
#include "drill/run/bound_check.h"
#include "drill/run/call_plan.h"
#include "drill/run/forecast.h"
#include "drill/run/in_words.h"
#include "drill/run/log_time.h"
#include "drill/run/machine.h"
#include "drill/run/placement.h"
#include "drill/run/recorder.h"
#include "drill/run/rig.h"
#include "policy/model.h"
#include "policy/store_url.h"
#include "render/text.h"
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
// How long after the last call everything must be on the bill.
constexpr Nanos kBilled = 5s;

// How often the breaker of each shard opened, as `weir_breaker_transitions_total{…,to="open"} 3`
// says.
std::vector<std::uint64_t> openings_of(const std::string& metrics) {
  std::vector<std::uint64_t> openings;
  std::istringstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("weir_breaker_transitions_total{")) continue;
    const std::size_t blank = line.rfind(' ');
    if (line.find("to=\"open\"") == std::string::npos || blank == std::string::npos) continue;
    std::uint64_t value = 0;
    std::from_chars(line.data() + blank + 1, line.data() + line.size(), value);
    openings.push_back(value);
  }
  return openings;
}

// Whether Weir's metrics say that the ledger has everything.
bool all_settled(const std::string& metrics) {
  return metrics.find("\nweir_journal_unsettled_events 0\n") != std::string::npos;
}

// Calls /v1/check of the policy's routes.
class CheckCalls {
 public:
  CheckCalls(const policy::Model& model, std::uint64_t cost) : cost_(cost) {
    for (const policy::Route& route : model.routes) {
      if (!route.rules.empty()) routes_.push_back(&route);
    }
  }

  const std::vector<const policy::Route*>& routes() const noexcept { return routes_; }

  std::string operator()(std::size_t route, std::uint32_t client, std::size_t) const {
    std::string body = "{\"route\":";
    render::append_json_string(body, routes_[route]->name);
    body += ",\"descriptors\":{";
    for (const policy::Source& source : routes_[route]->sources) {
      if (!body.ends_with('{')) body += ',';
      render::append_json_string(body, source.text);
      body += ':';
      render::append_json_string(body, value_of(source.text, client));
    }
    body += "},\"cost\":" + std::to_string(cost_) + "}";
    return "POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
           "Content-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
  }

 private:
  std::vector<const policy::Route*> routes_;
  std::uint64_t cost_;
};

class Run {
 public:
  Run(const DrillOptions& options, const Scenario& scenario, const policy::Model& model)
      : model_(model), options_(options), calls_(model, options.cost) {
    report_.scenario = scenario;
    report_.subject = options.policy;
    report_.cost = options.cost;
    report_.machine = machine_in_words();
    report_.began = time_in_words();
    std::ifstream file(options.policy, std::ios::binary);
    std::ostringstream text;
    if (file && (text << file.rdbuf())) report_.policy_text = without_credentials(text.str());
    for (const policy::Route* route : calls_.routes()) report_.routes.push_back(route->name);
    plan_.emplace(report_.scenario,
                  CallPlan::Options{.routes = report_.routes.size(),
                                    .clients = options.clients,
                                    .rate = options.rate,
                                    .seed = options.seed},
                  calls_);
    Recorder::Spared spared;
    if (scenario.shards > 1) {
      placement_.emplace(model, scenario.shards);
      spared = [this](std::size_t route, std::uint32_t client) {
        return !placement_->is_struck(*calls_.routes()[route], client);
      };
    }
    recorder_.emplace(report_, *plan_, Recorder::Asked::weir, std::move(spared));
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  bool has_routes() const noexcept { return !report_.routes.empty(); }

  Result<DrillReport> run(Rig& rig, const OnPhase& on_phase) {
    report_.store_version = rig.store_version();
    const HttpLoad::Options load{.address = "127.0.0.1:" + std::to_string(rig.http_port())};
    if (auto ran = recorder_->run(rig, load, on_phase); !ran) return ran.error();
    conclude(rig);
    return std::move(report_);
  }

 private:
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
    for (std::size_t i = 0; i < calls_.routes().size(); ++i) {
      for (BoundCheck& check :
           check_bounds(model_, *calls_.routes()[i], recorder_->admissions()[i], report_.scenario,
                        recorder_->began(), placement_ ? &*placement_ : nullptr)) {
        check.admitted *= options_.cost;  // what was counted is calls
        for (std::uint64_t& each : check.timeline) each *= options_.cost;
        report_.bounds.push_back(std::move(check));
      }
    }
    const std::string metrics = rig.metrics();
    openings_ = openings_of(metrics);
    report_.breaker_openings =
        std::accumulate(openings_.begin(), openings_.end(), std::uint64_t{0});
    report_.first_degraded = recorder_->first_degraded();
    if (const auto struck = recorder_->struck()) {
      if (const auto away = time_of_event(rig.log(), "store_away", *struck)) {
        report_.breaker_opened = *away - *struck;
      }
    }
    if (const auto from = calm_from(report_.scenario)) {
      // Where it was still degraded at the end nobody knows how long it would have been.
      const Nanos end = report_.scenario.length();
      const Nanos last = last_degraded();
      report_.came_back = end - last >= kSettled;
      report_.recovery = std::max(last - *from, Nanos::zero());
    }
    report_.forecast = forecast_of(report_, model_, options_);
    const std::optional<Nanos> settled = is_metered(model_) ? await_settlement(rig) : std::nullopt;
    const bool ended = rig.stop();
    if (is_metered(model_)) read_usage(rig, settled);
    const std::string log = rig.log();
    report_.log_lines = static_cast<std::size_t>(std::count(log.begin(), log.end(), '\n'));
    expect(ended);
  }

  // How long after the last call the ledger had everything; absent where it has not.
  static std::optional<Nanos> await_settlement(const Rig& rig) {
    const MonoTime from = Clock::real().mono();
    // What was served last is on its way to the journal for a moment.
    Clock::real().sleep_until(from + 200ms);
    for (;;) {
      const Nanos passed = Clock::real().mono() - from;
      if (all_settled(rig.metrics())) return passed;
      if (passed > kBilled) return std::nullopt;
      Clock::real().sleep_until(from + passed + 50ms);
    }
  }

  void read_usage(const Rig& rig, std::optional<Nanos> settled) {
    std::vector<CallsOfRoute> calls;
    for (std::size_t r = 0; r < report_.routes.size(); ++r) {
      CallsOfRoute& of = calls.emplace_back();
      of.route = report_.routes[r];
      for (const auto& phase : report_.tallies) {
        of.served += phase[r].all.allowed * options_.cost;
        of.unanswered += phase[r].all.unanswered() * options_.cost;
      }
    }
    report_.usage = check_bill(model_, calls, rig.journal());
    report_.usage->settled_after = settled;
  }

  void expect_bill() {
    if (!report_.usage) return;
    const UsageReport& usage = *report_.usage;
    std::uint64_t served = 0;
    std::uint64_t billed = 0;
    std::uint64_t by_itself = 0;
    for (const UsageCheck& each : usage.rules) {
      served += each.served;
      billed += each.billed;
    }
    for (const auto& phase : report_.tallies) {
      for (std::size_t r = 0; r < report_.routes.size(); ++r) {
        if (is_metered(*calls_.routes()[r])) by_itself += phase[r].all.by_itself;
      }
    }
    const auto all = [&usage](bool (UsageCheck::*holds)() const noexcept) {
      return std::all_of(usage.rules.begin(), usage.rules.end(),
                         [holds](const UsageCheck& each) { return (each.*holds)(); });
    };
    const std::string both = std::to_string(served) + " units were served, and " +
                             std::to_string(billed) + " are on the bill";
    add("all that was served is on the bill", all(&UsageCheck::nothing_lost), both);
    add("nothing else is, and nothing twice",
        all(&UsageCheck::nothing_more) && usage.of_nobody == 0, both);
    add("no key is served more beyond its part than the cap", all(&UsageCheck::capped),
        all(&UsageCheck::capped) ? "none was" : "some were");
    add("all is settled within " + in_words(kBilled) + ", and journal and ledger agree",
        usage.settled_after.has_value() && usage.unsettled == 0 && usage.put_aside == 0 &&
            usage.fault.empty(),
        !usage.fault.empty()  ? usage.fault
        : usage.settled_after ? "within " + in_words(*usage.settled_after)
                              : std::to_string(usage.unsettled) + " events were left");
    if (report_.scenario.settles) {
      add("metered calls are served without the store", by_itself > 0,
          std::to_string(by_itself) + " were");
    }
  }

  void expect(bool ended) {
    Tally all;
    Tally first;
    for (std::size_t i = 0; i < report_.tallies.size(); ++i) {
      Tally of_phase;
      for (const RouteTally& tally : report_.tallies[i]) of_phase.add(tally.all);
      all.add(of_phase);
      if (i == 0) first = of_phase;
    }
    add("every call is answered", all.unanswered() == 0,
        std::to_string(all.unanswered()) + " of " + std::to_string(all.calls) + " were not");
    add("every answer is 200, 429 or 503", all.errors + all.other == 0,
        std::to_string(all.errors + all.other) + " of " + std::to_string(all.calls) + " were not");
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
    expect_spared();
    expect_bill();
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

  // Of a cluster, the masters that the faults leave alone decide as ever.
  void expect_spared() {
    if (!placement_) return;
    const Recorder::SparedAnswers& spared = recorder_->spared_answers();
    add("at most one in a hundred is decided without the masters that the faults leave alone",
        spared.all > 0 && spared.degraded * 100 <= spared.all,
        std::to_string(spared.degraded) + " of " + std::to_string(spared.all) + " were");
    const auto opened = std::count_if(openings_.begin(), openings_.end(),
                                      [](std::uint64_t times) { return times > 0; });
    add("no breaker opens but that of the master that fails", opened <= 1,
        std::to_string(opened) + " of " + std::to_string(openings_.size()) + " did");
  }

  void add(std::string text, bool met, std::string found) {
    report_.expectations.push_back({std::move(text), met, std::move(found)});
  }

  const policy::Model& model_;
  const DrillOptions& options_;
  const CheckCalls calls_;
  DrillReport report_;
  std::optional<Placement> placement_;   // where the store is a cluster
  std::vector<std::uint64_t> openings_;  // of each shard's breaker
  std::optional<CallPlan> plan_;
  std::optional<Recorder> recorder_;
};

// The store that is to be used, where one was named.
Result<std::optional<policy::StoreUrl>> store_of(const DrillOptions& options,
                                                 const Scenario& scenario) {
  if (options.store.empty()) return std::optional<policy::StoreUrl>();
  auto url = policy::parse_store_url(options.store);
  if (!url || url->kind != policy::StoreKind::redis || url->tls) {
    return Error{ErrorCode::invalid_argument,
                 "--store is '" + policy::redacted(options.store) +
                     "'; it must be redis://HOST[:PORT][/DB]: a drill stands between Weir and one "
                     "server, and passes on what both say"};
  }
  if (scenario.needs_own_server()) {
    return Error{ErrorCode::invalid_argument,
                 "scenario " + scenario.name +
                     " changes the server itself; it is for a server of the drill's own, without "
                     "--store"};
  }
  return std::optional(std::move(*url));
}

}  // namespace

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
  Run run(options, scenario, policy->model());
  if (!run.has_routes()) {
    return Error{ErrorCode::invalid_argument,
                 options.policy + ": has no route with limits; there is nothing to drill"};
  }
  if (scenario.settles && !is_metered(policy->model())) {
    return Error{ErrorCode::invalid_argument,
                 "scenario " + scenario.name + " is for a policy that bills; " + options.policy +
                     " has no `journal:`, or no route that settles with `meter: true` in a rule"};
  }
  const auto store = store_of(options, scenario);
  if (!store) return store.error();
  auto rig = Rig::start({.policy = options.policy,
                         .weir_program = options.weir_program,
                         .has_state = !policy->model().store.workers.state.empty(),
                         .has_journal = policy->model().journal.has_value(),
                         .moves_clock = scenario.moves_clock(),
                         .loads = scenario.loads(),
                         .shards = scenario.shards,
                         .store = *store});
  if (!rig) return std::move(rig).error();
  return run.run(**rig, on_phase);
}

}  // namespace weir::drill
