#include "cli/check.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <set>

#include "cli/check_rls.h"
#include "cli/decision_text.h"
#include "cli/number.h"
#include "cli/open_policy.h"
#include "policy/address.h"
#include "policy/names.h"
#include "policy/store_url.h"
#include "weir/guard.h"

namespace weir::cli {
namespace {

// What the words of the command line come to.
struct Ask {
  std::vector<Descriptor> values;
  std::uint64_t cost = 1;
  std::uint64_t times = 1;
};

// Reads one `name=value`. Returns what is wrong with it, if anything.
std::optional<std::string> read_value(const std::string& word, const std::set<std::string>& known,
                                      Ask& ask) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0) {
    return "'" + word + "' is not name=value, as in ip=192.0.2.7";
  }
  const std::string_view name = std::string_view(word).substr(0, equals);
  if (!known.contains(std::string(name))) {
    return "no rule counts by '" + std::string(name) + "'" +
           policy::meant(std::string(name), known) + "; the policy knows: " + policy::joined(known);
  }
  const auto same = [name](const Descriptor& d) { return d.name == name; };
  if (std::any_of(ask.values.begin(), ask.values.end(), same)) {
    return "'" + std::string(name) + "' is given twice; give it once";
  }
  const std::string_view value = std::string_view(word).substr(equals + 1);
  if (name == "ip" && !policy::Address::parse_hop(value)) {
    return "ip is '" + std::string(value) +
           "', which is no address, as 192.0.2.7 and 2001:db8::1 "
           "are";
  }
  ask.values.push_back({name, value});
  return std::nullopt;
}

std::optional<std::string> read_ask(const CheckCommand& command, const policy::Model& model,
                                    Ask& ask) {
  const auto cost = parse_number(command.cost);
  if (!cost || *cost > kMaxUnits) {
    return "--cost is '" + command.cost + "'; it must be a whole number from 0 to " +
           std::to_string(kMaxUnits);
  }
  const auto times = parse_number(command.times);
  if (!times || *times == 0 || *times > kMaxTimes) {
    return "--times is '" + command.times + "'; it must be a whole number from 1 to " +
           std::to_string(kMaxTimes);
  }
  ask.cost = *cost;
  ask.times = *times;
  if (model.default_route.empty() && !policy::route_names(model).contains(command.route)) {
    const auto named = [&](const policy::Domain& each) { return each.name == command.route; };
    if (std::any_of(model.domains.begin(), model.domains.end(), named)) {
      return "'" + command.route + "' is a domain, of which a server is asked: weir serve, then " +
             "weir check --rls ADDR " + command.route + " KEY=VALUE";
    }
    return policy::no_such_route(command.route, policy::route_names(model));
  }
  const std::set<std::string> known = policy::source_names(model);
  for (const std::string& word : command.values) {
    if (auto fault = read_value(word, known, ask)) return fault;
  }
  if (ask.values.size() > kMaxDescriptors) {
    return std::to_string(ask.values.size()) + " values are given; at most " +
           std::to_string(kMaxDescriptors) + " are taken";
  }
  return std::nullopt;
}

// What one decision means for the exit code.
ExitCode code_of(const Decision& decision) {
  if (decision.allowed()) return ExitCode::as_asked;
  if (decision.verdict == Verdict::limited) return ExitCode::answered_no;
  switch (decision.reason) {
    case Reason::unknown_route:
    case Reason::missing_value:
    case Reason::invalid_request:
    case Reason::key_reused:
      return ExitCode::usage;
    default:
      return ExitCode::undecided;
  }
}

// Hears why the store could not be asked. Comes from the store's thread as well.
class StoreEar final : public Observer {
 public:
  void on_store_event(const StoreEvent& event) override {
    if (event.kind != StoreEvent::Kind::away_at_start && event.kind != StoreEvent::Kind::away) {
      return;
    }
    std::lock_guard lock(mutex_);
    why_ = event.why;
  }
  // A store that was there at the start said nothing that could be heard.
  std::string why() const {
    std::lock_guard lock(mutex_);
    return why_.empty() ? "was there at the start, and gave no answer within its deadline; see "
                          "weir lint --connect"
                        : why_;
  }

 private:
  mutable std::mutex mutex_;
  std::string why_;
};

// Whether the route's policy decided, because the store could not be asked.
bool decided_without_store(const Decision& decision) {
  return decision.rung == Rung::share || decision.reason == Reason::store_unavailable ||
         decision.reason == Reason::over_share || decision.reason == Reason::over_ceiling;
}

ExitCode decide(Environment& environment, const CheckCommand& command, Guard& guard, const Ask& ask,
                bool& without_store) {
  ExitCode code = ExitCode::as_asked;
  for (std::uint64_t i = 0; i < ask.times; ++i) {
    const Decision decision = guard.check(command.route, ask.values, {.cost = ask.cost});
    environment.out << (command.json ? decision.json()
                                     : decision_text(decision, environment.colours))
                    << '\n';
    without_store = without_store || decided_without_store(decision);
    code = worse(code, code_of(decision));
  }
  return code;
}

}  // namespace

ExitCode check(Environment& environment, const CheckCommand& command) {
  if (!command.rls.empty()) return check_rls(environment, command);
  if (command.route.empty()) {
    return fail(environment, ExitCode::usage, "ROUTE is required; see weir check --help");
  }
  ExitCode code = ExitCode::usage;
  const auto policy = open_policy(environment, command.policy, command.store, code);
  if (!policy) return code;
  Ask ask;
  if (const auto fault = read_ask(command, policy->model(), ask)) {
    return fail(environment, ExitCode::usage, *fault);
  }
  StoreEar ear;
  Result<Guard> guard = Guard::open(*policy, {.observer = &ear, .role = FleetRole::guest});
  if (!guard) {
    const bool wrong = guard.error().code == ErrorCode::invalid_argument;
    return fail(environment, wrong ? ExitCode::usage : ExitCode::undecided, guard.error().message);
  }
  bool without_store = false;
  const ExitCode decided = decide(environment, command, *guard, ask, without_store);
  if (!without_store) return decided;
  return fail(environment, decided,
              "store " + policy::redacted(policy->model().store.url) + ": " + ear.why());
}

}  // namespace weir::cli
