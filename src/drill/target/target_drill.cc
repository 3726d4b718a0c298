#include "drill/target/target_drill.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>
#include <utility>

#include "base/hex.h"
#include "drill/proxy/endpoint.h"
#include "drill/run/call_plan.h"
#include "drill/run/in_words.h"
#include "drill/run/machine.h"
#include "drill/run/recorder.h"
#include "drill/run/stage.h"

namespace weir::drill {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kMostClients = 2'000;
constexpr double kMostHostileRate = 1'000;
constexpr double kLeastHostileRate = 20;
// So long without a bad answer means that it is as before.
constexpr Nanos kSettled = 1s;

// What is asked, by whom, under which value of the key. In each phase the hostile client is
// another, so that what it was told before says nothing about it.
class TargetCalls {
 public:
  TargetCalls(const TargetOptions& options, std::size_t phases, std::uint64_t run)
      : options_(options), phases_(phases), run_(run) {}

  std::string operator()(std::size_t, std::uint32_t client, std::size_t phase) const {
    return request(client == 0 ? phase : phases_ + client);
  }

  std::string request(std::size_t number) const {
    const std::string value = value_of_key(number);
    std::string path = options_.url.path;
    std::string more;
    switch (options_.key.kind) {
      case policy::SourceKind::query:
        path += (path.find('?') == std::string::npos ? "?" : "&") + options_.key.name + "=" + value;
        break;
      case policy::SourceKind::cookie:
        more = "Cookie: " + options_.key.name + "=" + value + "\r\n";
        break;
      default:
        more = options_.key.text.substr(options_.key.text.find(':') + 1) + ": " + value + "\r\n";
    }
    for (const std::string& header : options_.headers) more += header + "\r\n";
    if (!options_.body.empty() || options_.method != "GET") {
      more += "Content-Length: " + std::to_string(options_.body.size()) + "\r\n";
    }
    return options_.method + " " + path + " HTTP/1.1\r\nHost: " + options_.url.host +
           "\r\nUser-Agent: weir-drill\r\nAccept: */*\r\n" + more + "\r\n" + options_.body;
  }

 private:
  std::string value_of_key(std::size_t number) const {
    if (!options_.values.empty()) return options_.values[number % options_.values.size()];
    const std::uint64_t drawn = (run_ + number) * 0x9e37'79b9'7f4a'7c15U;
    // Headers that carry addresses get some of the range that is kept for benchmarks.
    if (options_.key.name.find("forwarded") != std::string::npos ||
        options_.key.name.find("ip") != std::string::npos) {
      return "198." + std::to_string(18 + (drawn >> 63U)) + "." +
             std::to_string(drawn >> 40U & 0xffU) + "." + std::to_string(drawn >> 48U & 0xffU);
    }
    return "drill-" + hex(run_).substr(8) + "-" + std::to_string(number);
  }

  const TargetOptions& options_;
  const std::size_t phases_;
  const std::uint64_t run_;
};

// Who asks how often, so that those who keep to the limit keep well below it, and the one who does
// not is well above it.
CallPlan::Options paces(const TargetOptions& options, const Scenario& scenario) {
  const double a_second = static_cast<double>(options.limit.units) /
                          std::chrono::duration<double>(options.limit.period).count();
  const double steady = std::min(a_second * 0.4, 2.0);
  const auto clients = static_cast<std::uint32_t>(
      std::clamp(std::ceil(options.rate / steady), 1.0, static_cast<double>(kMostClients)));
  double hostile = kLeastHostileRate;
  for (const Phase& phase : scenario.phases) {
    const double seconds = std::chrono::duration<double>(phase.length).count();
    const double most = static_cast<double>(options.limit.most_in(phase.length));
    hostile = std::max(hostile, 1.5 * most / seconds);
  }
  hostile = std::min(hostile, kMostHostileRate);
  const double each = options.rate / clients;
  return {.routes = 1,
          .clients = clients + 1,
          .rate = options.rate + hostile,
          .hostility = hostile / each,
          .all_steady = true,
          .seed = options.seed};
}

Tally steady_of(const RouteTally& tally) {
  return tally.of(ClientKind::steady);
}

class ProxyStage final : public Stage {
 public:
  explicit ProxyStage(FaultProxy& proxy) : proxy_(proxy) {}
  FaultProxy& proxy() noexcept override { return proxy_; }
  Result<void> act(const Phase& phase) override {
    act_by_proxy(proxy_, phase);
    return {};
  }

 private:
  FaultProxy& proxy_;
};

// Whether in this phase the store cannot answer at all.
bool store_gone(const Phase& phase) {
  using Flow = ProxyFaults::Flow;
  return phase.flap == Nanos{0} &&
         (phase.state != ServerState::well || phase.faults.door != ProxyFaults::Door::open ||
          (phase.faults.replies != Flow::pass && phase.faults.percent == 100));
}

}  // namespace

class TargetDrill::Impl {
 public:
  Impl(std::unique_ptr<FaultProxy> proxy, TargetOptions options)
      : proxy_(std::move(proxy)), options_(std::move(options)), stage_(*proxy_) {
    run_ = static_cast<std::uint64_t>(Clock::real().now().time_since_epoch().count());
  }

  std::string listen(const std::string& host) const {
    return host + ":" + std::to_string(proxy_->port());
  }

  Result<DrillReport> run(const Scenario& scenario, const OnPhase& on_phase) {
    if (scenario.needs_own_server()) {
      return Error{ErrorCode::invalid_argument,
                   "scenario " + scenario.name +
                       " changes the store's server itself, which a proxy in front of it cannot"};
    }
    ++run_;
    proxy_->set({});
    if (auto up = await_answer(); !up) return up.error();
    DrillReport report;
    report.scenario = scenario;
    report.subject = options_.url_text + ", " + options_.limit_text + " by " + options_.key.text;
    if (options_.url.tls && options_.trust.unchecked) {
      report.subject += "; NOBODY CHECKED WHO ANSWERED (--insecure)";
    }
    report.machine = machine_in_words();
    report.began = time_in_words();
    report.routes = {options_.method + " " + options_.url.path};
    const CallPlan::Options pace = paces(options_, scenario);
    CallPlan plan(report.scenario, pace,
                  TargetCalls(options_, scenario.phases.size(), run_ << 16U));
    Recorder recorder(report, plan, Recorder::Asked::stranger);
    const FaultProxy::Counts before = proxy_->counts();
    const double calls = pace.rate * std::chrono::duration<double>(options_.patience).count();
    HttpLoad::Options load = load_options();
    load.connections = static_cast<std::uint32_t>(
        std::clamp(calls, 64.0, static_cast<double>(HttpLoad::kMostConnections)));
    if (auto ran = recorder.run(stage_, load, on_phase); !ran) return ran.error();
    const Tally calm = steady_of(report.tallies[0][0]);
    if (calm.allowed * 100 < calm.calls * 60) {
      return Error{ErrorCode::unavailable,
                   options_.url_text +
                       " does not let callers in even while nothing is the matter: " +
                       judge(seen(report, 0, calm), options_.limit).words +
                       "; look at --target, --method, --header and --key"};
    }
    if (proxy_->counts().request_bytes == before.request_bytes) {
      return Error{ErrorCode::unavailable,
                   "nothing came through the proxy: the app does not speak to its store by " +
                       proxy_address_ + ", so that what it does without one cannot be seen"};
    }
    conclude(report, recorder, calm);
    return report;
  }

  void called(std::string address) { proxy_address_ = std::move(address); }
  const std::string& address() const noexcept { return proxy_address_; }

 private:
  HttpLoad::Options load_options() const {
    HttpLoad::Options load{.address = options_.url.address, .patience = options_.patience};
    if (options_.url.tls) load.tls = options_.trust;
    return load;
  }

  // Until the app is there. What waiting does not mend is said at once.
  Result<void> await_answer() {
    const MonoTime until = Clock::real().mono() + options_.wait;
    const std::string request = TargetCalls(options_, 0, run_ << 16U).request(~std::uint16_t{0});
    HttpLoad::Options options = load_options();
    options.connections = 1;
    options.patience = std::min<Nanos>(options.patience, 2s);
    for (;;) {
      using End = HttpOutcome::End;
      End end = End::cut;
      std::string why;
      bool asked = false;
      const auto next = [&](HttpLoad::Call& call) {
        call = {.due = Clock::real().mono(), .tag = 0, .request = request};
        return !std::exchange(asked, true);
      };
      const auto on_outcome = [&](const HttpOutcome& outcome) {
        end = outcome.end;
        why = outcome.why;
      };
      if (auto ran = HttpLoad(options).run(next, on_outcome); !ran) return ran;
      if (end == End::answered) return {};
      if (end == End::garbled) return says(" speaks no HTTP/1.1: " + why + "; is it https?");
      if (end == End::untrusted) {
        return says(": " + why + "; look at --tls-ca and --tls-server-name, or at the port");
      }
      if (Clock::real().mono() >= until) {
        return says(" did not answer within " + in_words(options_.wait));
      }
      std::this_thread::sleep_for(100ms);
    }
  }

  Error says(const std::string& what) const {
    return {ErrorCode::unavailable, options_.url_text + what};
  }

  PhaseSeen seen(const DrillReport& report, std::size_t i, const Tally& calm,
                 bool limit_seen = false) const {
    const Phase& phase = report.scenario.phases[i];
    return {.steady = report.tallies[i][0].of(ClientKind::steady),
            .hostile = report.tallies[i][0].of(ClientKind::hostile),
            .calm = calm,
            .length = phase.length,
            .is_calm = phase.is_calm(),
            .store_gone = store_gone(phase),
            .limit_seen = limit_seen};
  }

  void conclude(DrillReport& report, const Recorder& recorder, const Tally& calm) {
    std::vector<Judgement> judged;
    Tally all;
    for (std::size_t i = 0; i < report.scenario.phases.size(); ++i) {
      const bool limit_seen = i > 0 && judged.front().conduct == Conduct::limits;
      judged.push_back(judge(seen(report, i, calm, limit_seen), options_.limit));
      report.findings.push_back(judged.back().words);
      all.add(report.tallies[i][0].all);
    }
    const auto expect = [&report](std::string text, bool met, std::string found) {
      report.expectations.push_back({std::move(text), met, std::move(found)});
    };
    const auto of_all = [&all](std::uint64_t count) {
      return std::to_string(count) + " of " + std::to_string(all.calls);
    };
    expect("the limit holds while the store answers", judged[0].conduct == Conduct::limits,
           judged[0].words);
    expect("every call is answered within " + in_words(options_.patience), all.unanswered() == 0,
           of_all(all.unanswered()) + " were not");
    expect("no answer is an error, 5xx but 503", all.errors == 0, of_all(all.errors) + " were");
    expect_conduct(report, judged, expect);
    expect_recovery(report, recorder, calm, expect);
  }

  template <class Expect>
  void expect_conduct(const DrillReport& report, const std::vector<Judgement>& judged,
                      const Expect& expect) const {
    if (!options_.expected) return;
    for (std::size_t i = 0; i < judged.size(); ++i) {
      if (report.scenario.phases[i].is_calm()) continue;
      expect("in '" + report.scenario.phases[i].name + "' it is " +
                 std::string(to_string(*options_.expected)),
             judged[i].conduct == *options_.expected,
             std::string(to_string(judged[i].conduct)) + ": " + judged[i].words);
    }
  }

  // When those who keep to the limit were served as before for the first time since the faults.
  template <class Expect>
  void expect_recovery(DrillReport& report, const Recorder& recorder, const Tally& calm,
                       const Expect& expect) const {
    const auto from = calm_from(report.scenario);
    if (!from) return;
    const Nanos usual = calm.latency.quantile(0.99) + 250ms;
    Nanos last{0};
    for (const Recorder::Sample& each : recorder.samples()) {
      if (!each.allowed || each.waited > usual) last = std::max(last, each.due);
    }
    report.came_back = report.scenario.length() - last >= kSettled;
    report.recovery = std::max(last - *from, Nanos{0});
    const Nanos since = std::chrono::round<std::chrono::milliseconds>(*report.recovery);
    expect("at the end it is as before", report.came_back,
           !report.came_back   ? "not while the drill looked"
           : since == Nanos{0} ? "as soon as the faults ended"
                               : in_words(since) + " after the faults ended");
  }

  std::unique_ptr<FaultProxy> proxy_;
  const TargetOptions options_;
  ProxyStage stage_;
  std::string proxy_address_;
  std::uint64_t run_ = 0;
};

Result<std::unique_ptr<TargetDrill>> TargetDrill::open(const std::string& store,
                                                       const std::string& listen,
                                                       TargetOptions options) {
  if (const auto api = target_of(options.url.address); !api) {
    return Error{api.error().code,
                 "--target is '" + options.url_text + "': " + api.error().message};
  }
  if (options.trust.server_name.empty()) options.trust.server_name = options.url.name;
  auto proxy = FaultProxy::start({.listen = listen, .target = store});
  if (!proxy) {
    return Error{proxy.error().code, "--proxy-store, --listen: " + proxy.error().message};
  }
  auto impl = std::make_unique<Impl>(std::move(*proxy), std::move(options));
  impl->called(impl->listen(listen.substr(0, listen.rfind(':'))));
  return std::unique_ptr<TargetDrill>(new TargetDrill(std::move(impl)));
}

TargetDrill::TargetDrill(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TargetDrill::~TargetDrill() = default;
std::string TargetDrill::listen() const {
  return impl_->address();
}
Result<DrillReport> TargetDrill::run(const Scenario& scenario, const OnPhase& on_phase) {
  return impl_->run(scenario, on_phase);
}

}  // namespace weir::drill
