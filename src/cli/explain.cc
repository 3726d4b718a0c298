#include "cli/explain.h"

#include <set>

#include "cli/number.h"
#include "cli/open_policy.h"
#include "cli/serve_faults.h"
#include "ladder/explain.h"
#include "policy/duration.h"
#include "policy/envoy/request_story.h"
#include "policy/names.h"
#include "render/text.h"
#include "store/redis/error_class.h"

namespace weir::cli {
namespace {

constexpr std::uint64_t kMaxWorkers = 1'000'000;

// Returns what is wrong with the words, if anything.
std::optional<std::string> read(const ExplainCommand& command, ladder::ExplainOptions& options) {
  options.route = command.route;
  if (!command.workers.empty()) {
    const auto workers = parse_number(command.workers);
    if (!workers || *workers == 0 || *workers > kMaxWorkers) {
      return "--workers is '" + command.workers + "'; it must be a whole number from 1 to " +
             std::to_string(kMaxWorkers);
    }
    options.workers = static_cast<std::uint32_t>(*workers);
  }
  if (!command.request.empty() && command.json) return "--request is answered in words alone";
  if (!command.outage.empty()) {
    options.outage = policy::parse_duration(command.outage);
    if (!options.outage || *options.outage <= Nanos::zero() ||
        *options.outage > ladder::kLongestOutage) {
      return "--outage is '" + command.outage + "'; it must be " +
             std::string(policy::kDurationForm) + ", above 0 and at most 365d";
    }
  }
  if (!command.offered.empty()) {
    if (!options.outage) return "--offered goes with --outage";
    const auto offered = ladder::parse_offered(command.offered);
    if (!offered) return "--offered: " + offered.error().message;
    options.offered = *offered;
  }
  return std::nullopt;
}

std::string errors_json() {
  std::string out;
  const auto text = [&out](std::string_view member, std::string_view value) {
    out += member;
    render::append_json_string(out, value);
  };
  for (const store::redis::ErrorRow& row : store::redis::error_table()) {
    text("{\"says\":", row.pattern);
    text(",\"class\":", to_string(row.error_class));
    text(",\"follows\":", to_string(row.action));
    out += row.votes ? ",\"votes\":true" : ",\"votes\":false";
    text(",\"carried_out\":", row.carried == store::redis::Carried::no ? "no" : "perhaps");
    text(",\"meaning\":", row.meaning);
    if (!row.remedy.empty()) text(",\"remedy\":", row.remedy);
    out += "}\n";
  }
  return out;
}

ExitCode explain_errors(Environment& environment, const ExplainCommand& command) {
  const ExplainCommand errors_alone{.errors = true, .json = command.json};
  if (command != errors_alone) {
    return fail(environment, ExitCode::usage,
                "--errors is the same for every policy: it goes with --json alone");
  }
  environment.out << (command.json ? errors_json() : store::redis::error_table_text());
  return ExitCode::as_asked;
}

// What is explained need not be what serve would do: it may refuse the policy.
void warn_of_serve(Environment& environment, const std::string& path, const Policy& policy) {
  for (Fault fault : serve_faults(path, policy)) {
    fault.warning = false;  // said in front
    environment.err << "weir: warning: serve refuses this policy: " << fault.text() << '\n';
  }
}

}  // namespace

ExitCode explain(Environment& environment, const ExplainCommand& command) {
  if (command.errors) return explain_errors(environment, command);
  if (command.policy.empty()) {
    return fail(environment, ExitCode::usage, "POLICY is required; see weir explain --help");
  }
  ladder::ExplainOptions options;
  if (const auto fault = read(command, options)) {
    return fail(environment, ExitCode::usage, *fault);
  }
  ExitCode code = ExitCode::usage;
  const auto policy = open_policy(environment, command.policy, command.store, code);
  if (!policy) return code;
  if (!command.request.empty()) {
    const auto story = policy::request_story(policy->model(), command.request);
    if (!story) return fail(environment, ExitCode::usage, story.error().message);
    environment.out << *story;
    return ExitCode::as_asked;
  }
  std::set<std::string> names = policy::route_names(policy->model());
  for (const policy::Domain& domain : policy->model().domains) names.insert(domain.name);
  for (const policy::BreakerSpec& breaker : policy->model().breakers) names.insert(breaker.name);
  for (const policy::ConcurrencySpec& limit : policy->model().concurrency) names.insert(limit.name);
  if (!command.route.empty() && !names.contains(command.route)) {
    return fail(environment, ExitCode::usage, policy::no_such_route(command.route, names));
  }
  const auto explanation = ladder::explain(policy->model(), options);
  if (!explanation) return fail(environment, ExitCode::usage, explanation.error().message);
  warn_of_serve(environment, command.policy, *policy);
  environment.out << (command.json ? ladder::explain_json(*explanation)
                                   : ladder::explain_text(*explanation));
  return ExitCode::as_asked;
}

}  // namespace weir::cli
