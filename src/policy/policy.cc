#include "weir/policy.h"

#include <algorithm>

#include "policy/load.h"
#include "policy/match.h"
#include "policy/read_policy.h"
#include "policy/read_route.h"
#include "policy/rule_draft.h"
#include "policy/store_url.h"
#include "weir/decision.h"

namespace weir {
namespace {

using policy::Model;

Error invalid(std::string message) {
  return Error{ErrorCode::invalid_argument, std::move(message)};
}

Result<Policy> loaded(policy::Loaded load) {
  if (load.model != nullptr) return Policy(std::move(load.model));
  return Error{load.unreadable ? ErrorCode::not_found : ErrorCode::invalid_argument,
               policy::text_of(load.faults)};
}

// Turns routes given in code into the model's, collecting what is wrong with them.
class CodeReader {
 public:
  explicit CodeReader(Model& model) : model_(model) {}

  void read(const RouteSpec& spec) {
    path_ = "routes." + spec.name;
    policy::Route route{.name = spec.name, .protects = spec.protects};
    if (!policy::is_route_name(spec.name))
      fault("cannot name a route; allowed: 1 to 128 letters, digits, and any of \"_-.:/\"");
    const bool known = std::any_of(model_.routes.begin(), model_.routes.end(),
                                   [&](const policy::Route& r) { return r.name == spec.name; });
    if (known) fault("stands twice; allowed: each route once");
    if (!spec.protects && !spec.when_store_fails)
      fault(
          "does not say what happens when its store is away; allowed: protects or "
          "when_store_fails");
    if (spec.limits.size() > policy::kMaxRules)
      fault("has more than " + std::to_string(policy::kMaxRules) + " limits");
    if (spec.protects) route.when_store_fails = failure_policy_of(*spec.protects);
    if (spec.when_store_fails) route.when_store_fails = *spec.when_store_fails;
    route.failure_policy_given = spec.when_store_fails.has_value();
    for (const LimitSpec& limit : spec.limits) add_rule(limit, route);
    if (spec.ceiling) add_ceiling(*spec.ceiling, route);
    policy::assign_slots(route);
    model_.routes.push_back(std::move(route));
  }

  const std::string& faults() const { return faults_; }
  void fault(const std::string& what) {
    if (!faults_.empty()) faults_ += '\n';
    faults_ += path_ + ": " + what;
  }

 private:
  std::optional<policy::Rule> build(const LimitSpec& spec, const policy::Route& route) {
    policy::RuleDraft draft{.requests = spec.requests,
                            .per = {.exact = spec.per},
                            .algorithm = spec.algorithm,
                            .burst = spec.burst,
                            .name = spec.name,
                            .shadow = spec.shadow};
    for (const std::string& name : spec.by) {
      // Plain names need no declaration here: code says what it hands over.
      std::vector<std::string> inputs;
      if (policy::is_input_name(name)) inputs.push_back(name);
      policy::Problem problem;
      auto source = policy::parse_source(name, inputs, problem);
      if (!source) {
        fault("'" + name + "' " + problem.what + "; allowed: " + problem.allowed);
        return std::nullopt;
      }
      if (source->kind == policy::SourceKind::input) declare(name);
      draft.by.push_back(*std::move(source));
    }
    if (!spec.name.empty() && !policy::is_rule_name(spec.name))
      fault("'" + spec.name + "' cannot name a rule");
    if (spec.per.count() <= 0) {
      fault("a limit has a period of " + std::to_string(spec.per.count()) +
            "ns; allowed: a length above 0");
      return std::nullopt;
    }
    std::vector<policy::DraftProblem> problems;
    auto rule = policy::build_rule(draft, route.name, route.protects, problems);
    for (const policy::DraftProblem& problem : problems)
      fault(std::string(problem.field) + " " + problem.what +
            (problem.allowed.empty() ? "" : "; allowed: " + problem.allowed));
    return rule;
  }

  void add_rule(const LimitSpec& spec, policy::Route& route) {
    auto rule = build(spec, route);
    if (!rule) return;
    for (const policy::Rule& other : route.rules)
      if (other.identity_text == rule->identity_text || other.name == rule->name)
        fault("'" + rule->name + "' and '" + other.name +
              "' are one rule; allowed: another name, source, period or algorithm");
    route.rules.push_back(*std::move(rule));
  }

  void add_ceiling(const LimitSpec& spec, policy::Route& route) {
    if (!spec.by.empty() || spec.requests == 0 ||
        spec.algorithm.value_or(Algorithm::gcra) != Algorithm::gcra) {
      fault("a ceiling counts all keys together by gcra; allowed: requests above 0, no by");
      return;
    }
    LimitSpec limit = spec;
    limit.algorithm = Algorithm::gcra;
    if (auto rule = build(limit, route))
      route.ceiling = policy::Ceiling{.numbers = rule->numbers, .text = rule->name};
  }

  void declare(const std::string& name) {
    if (std::find(model_.inputs.begin(), model_.inputs.end(), name) == model_.inputs.end())
      model_.inputs.push_back(name);
  }

  Model& model_;
  std::string path_;
  std::string faults_;
};

}  // namespace

Result<Policy> Policy::load(const std::string& path) {
  return loaded(policy::load_path(path));
}

Result<Policy> Policy::parse(std::string_view text, const std::string& name) {
  return loaded(policy::load_text(text, name));
}

std::vector<Fault> Policy::lint(const std::string& path) {
  return policy::load_path(path).faults;
}

Policy Policy::with_protects(Protects protects) const {
  auto model = std::make_shared<Model>(*model_);
  policy::decide_domains(*model, protects);
  return Policy(std::move(model));
}

Result<Policy> Policy::of(std::vector<RouteSpec> routes) {
  auto model = std::make_shared<Model>();
  model->header_profiles = kHeadersDraft10;
  CodeReader reader(*model);
  if (routes.size() > policy::kMaxRoutes)
    return invalid("more than " + std::to_string(policy::kMaxRoutes) + " routes");
  for (const RouteSpec& spec : routes) reader.read(spec);
  if (reader.faults().empty())
    for (const policy::CrossFault& fault : policy::check_across_routes(model->routes))
      reader.fault(fault.field + ": " + fault.what + "; allowed: " + fault.allowed);
  if (!reader.faults().empty()) return invalid(reader.faults());
  model->matcher = policy::Matcher::build(*model);
  return Policy(std::move(model));
}

Result<Policy> Policy::with_store(std::string_view url) const {
  if (auto parsed = policy::parse_store_url(url); !parsed)
    return invalid("the store '" + policy::redacted(url) + "' " + parsed.error().message +
                   "; allowed: " + std::string(policy::kStoreUrlForms));
  auto model = std::make_shared<Model>(*model_);
  model->store.url = url;
  // What belongs to the file's own store, not to how a store is treated.
  model->store.fallback_url.reset();
  model->store.username.clear();
  model->store.password_file.clear();
  model->store.tls.reset();
  return Policy(std::move(model));
}

}  // namespace weir
