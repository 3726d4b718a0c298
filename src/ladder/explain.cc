#include "ladder/explain.h"

#include <algorithm>
#include <limits>

#include "base/http_status.h"
#include "ladder/bound.h"
#include "ladder/explain_safeguards.h"
#include "ladder/explain_words.h"
#include "limit/client_skew.h"
#include "policy/duration.h"
#include "policy/store_url.h"

namespace weir::ladder {
namespace {

using policy::Model;
using policy::Route;
using policy::Rule;

Answer answer(Verdict verdict, Reason reason, std::string when) {
  return Answer{
      .verdict = verdict, .status = http_status(verdict, reason), .when = std::move(when)};
}

bool is_embedded(const Model& model) {
  return model.store.url == "memory:";
}

std::uint32_t regions_of(const Model& model) {
  return is_embedded(model) ? 1 : model.store.regions;
}

// Whether several workers have a counter each, where a shared store would have one.
bool counts_apart(const Model& model, const ExplainOptions& options) {
  return is_embedded(model) && options.workers > 1;
}

std::string apart_in_words(std::uint32_t workers) {
  const std::string count = std::to_string(workers);
  return "Each of the " + count + " workers counts in its own memory: together they admit " +
         count + " times a limit";
}

// Of two workers.
Nanos clocks_apart(const Model& model) {
  if (is_embedded(model) || !model.store.client_clock) return Nanos{0};
  return Nanos{2 * limit::kMostClientSkewNs};
}

// In all regions, of each of which `workers` are.
std::uint32_t workers_everywhere(const Model& model, std::uint32_t workers) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  return static_cast<std::uint32_t>(std::min(std::uint64_t{workers} * regions_of(model), kMost));
}

std::uint64_t times(std::uint64_t regions, std::uint64_t units) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  return units > kMost / regions ? kMost : units * regions;
}

// The worst wait from the store's first answer until every key asks it again: the cooldown that the
// breaker had reached, its jitter, and the steps of the return.
Nanos back_within(const policy::StoreSpec& store, Nanos outage) {
  return cooldown_within(store, outage) + store.recovery.step * store.recovery.steps;
}

// What a metered rule may serve beyond its parts: absent where that has no end of its own.
std::optional<std::uint64_t> overspend_of(const Route& route, const Rule& rule) {
  if (!rule.meter || !route.overspend) return 0;
  if (route.overspend->mode != policy::OverspendMode::cap) return std::nullopt;
  return route.overspend->cap;
}

// Of the key that may have most: some values have numbers of their own. Absent where one of them
// has no end.
template <class MostOf>
std::optional<std::uint64_t> most_of_keys(const Rule& rule, const MostOf& most_of) {
  std::optional<std::uint64_t> most = most_of(rule.numbers);
  for (const auto& [value, numbers] : rule.overrides) {
    const std::optional<std::uint64_t> own = most_of(numbers);
    most = most && own ? std::optional(std::max(*most, *own)) : std::nullopt;
  }
  return most;
}

std::vector<RuleBound> bounds_of(const Route& route, Exposure exposure) {
  if (route.ceiling) exposure.ceiling = &route.ceiling->numbers;
  std::vector<RuleBound> out;
  for (const Rule& rule : route.rules) {
    exposure.overspend = overspend_of(route, rule);
    std::optional<std::uint64_t> most;
    if (!rule.shadow && !route.shadow)
      most = most_of_keys(rule, [&](const limit::Numbers& numbers) {
        return most_admitted(numbers, route.when_store_fails, exposure);
      });
    out.push_back({rule.name, most});
  }
  return out;
}

// A window that holds a change: the store answered in it, and everybody was cut off in it.
std::vector<RuleBound> bounds_of_a_change(const Model& model, const Route& route,
                                          const ExplainOptions& options) {
  return bounds_of(route, {.workers = options.workers,
                           .cut_off = options.workers,
                           .fallback_answered = model.store.fallback_url.has_value(),
                           .regions = regions_of(model),
                           .clocks_apart = clocks_apart(model)});
}

std::string deadline_in_words(const policy::StoreSpec& store) {
  const std::string time = policy::to_text(store.deadline);
  return time == store.deadline_text ? time : time + " (" + store.deadline_text + ")";
}

std::string slow_in_words(const policy::StoreSpec& store) {
  const std::string wait = "a request waits " + deadline_in_words(store) + " and no longer; then ";
  const std::string then = store.fallback_url
                               ? "the fallback store is asked, for as long again at most. After "
                               : "it is answered as when the store is away. After ";
  std::string out = wait + then + std::to_string(store.breaker.failures) +
                    " such in a row nobody waits any more, until a probe is answered.";
  if (store.breaker.slow_call.count() > 0)
    out += " So too when " + std::to_string(static_cast<int>(store.breaker.slow_rate * 100 + 0.5)) +
           "% of calls take longer than " + policy::to_text(store.breaker.slow_call) + ".";
  return out;
}

std::string returning_in_words(const policy::StoreSpec& store) {
  return "a probe finds it within " + policy::to_text(store.breaker.cooldown) + " to " +
         policy::to_text(store.breaker.max_cooldown) + "; then keys return to it in " +
         std::to_string(store.recovery.steps) + " steps of " +
         policy::to_text(store.recovery.step) +
         ". What was admitted meanwhile is told to the store and stays used.";
}

constexpr const char* kInShadow = "always: in shadow no limit denies";

// What a route says whose limits are all in shadow: neither they nor a ceiling hold anybody.
void away_in_shadow(const Model& model, const Route& route, StateOfStore& out) {
  const bool parts = route.when_store_fails == FailurePolicy::bounded ||
                     route.when_store_fails == FailurePolicy::settle;
  out.meaning = parts ? "Each worker counts by itself, and denies nobody."
                      : "Nobody can count, and in shadow nobody is denied.";
  if (model.store.fallback_url)
    out.meaning = "The fallback store counts. Without it too: " + out.meaning;
  out.answers = {answer(Verdict::allowed, parts ? Reason::within_limit : Reason::store_unavailable,
                        kInShadow)};
}

StateOfStore answering(const Model& model, const Route& route, const ExplainOptions& options) {
  StateOfStore out{.state = StoreState::answers, .meaning = "Counts are exact."};
  out.answers = {answer(Verdict::allowed, Reason::within_limit, "every limit has room"),
                 answer(Verdict::limited, Reason::over_limit, "a limit has not")};
  if (denies_nobody(route))
    out.answers = {answer(Verdict::allowed, Reason::within_limit, kInShadow)};
  const bool apart = counts_apart(model, options);
  if (apart) out.meaning = "Counts are exact in each worker.";
  out.bounds = bounds_of(route, {.workers = apart ? 1 : options.workers,
                                 .regions = apart ? options.workers : regions_of(model),
                                 .clocks_apart = clocks_apart(model)});
  return out;
}

StateOfStore slow(const Model& model, const Route& route, const StateOfStore& away,
                  const ExplainOptions& options) {
  StateOfStore out{.state = StoreState::slow, .meaning = slow_in_words(model.store)};
  out.answers = away.answers;
  for (Answer& each : out.answers) each.when = "too late: " + each.when;
  out.bounds = bounds_of_a_change(model, route, options);
  return out;
}

// A part is counted in a table that has an end, and nobody in it is forgotten for a newcomer.
Answer no_room_for_key(const Model& model) {
  return answer(Verdict::refused, Reason::keys_exhausted,
                "a new key, while there is no room to count it (known_keys: " +
                    std::to_string(model.store.known_keys) + ")");
}

StateOfStore away(const Model& model, const Route& route, const ExplainOptions& options) {
  StateOfStore out{.state = StoreState::away};
  const bool fallback = model.store.fallback_url.has_value();
  out.bounds = bounds_of(route, {.workers = options.workers,
                                 .cut_off = options.workers,
                                 .store_answered = false,
                                 .fallback_answered = fallback,
                                 .regions = regions_of(model),
                                 .clocks_apart = clocks_apart(model)});
  if (denies_nobody(route)) {
    away_in_shadow(model, route, out);
    return out;
  }
  const std::string under_ceiling =
      route.ceiling ? "over the ceiling of " + route.ceiling->text + " a worker" : "";
  const Answer over_ceiling = answer(Verdict::refused, Reason::over_ceiling, under_ceiling);
  switch (route.when_store_fails) {
    case FailurePolicy::closed:
      out.meaning = "Nobody can count, so nothing passes.";
      out.answers = {answer(Verdict::refused, Reason::store_unavailable, "anything else")};
      break;
    case FailurePolicy::bounded:
      out.meaning = parts_in_words(route, options.workers);
      out.answers = {
          answer(Verdict::allowed, Reason::within_limit, "this worker's part has room"),
          answer(Verdict::limited, Reason::over_share, "this worker's part is used up"),
          answer(Verdict::refused, Reason::over_share, "it has no part that could hold it")};
      out.answers.push_back(no_room_for_key(model));
      if (route.ceiling) out.answers.push_back(over_ceiling);
      break;
    case FailurePolicy::settle:
      out.meaning = parts_in_words(route, options.workers) + " " + overspend_in_words(route);
      out.answers = {answer(Verdict::allowed, Reason::within_limit,
                            "this worker's part has room, or the rule is metered and the overspend "
                            "allows it"),
                     answer(Verdict::limited, Reason::over_share, "anything else"),
                     answer(Verdict::refused, Reason::over_share,
                            "it has no part that could hold it, and the overspend does not")};
      out.answers.push_back(no_room_for_key(model));
      if (route.ceiling) out.answers.push_back(over_ceiling);
      break;
    case FailurePolicy::open:
      out.meaning = route.ceiling ? "Nothing is counted; only the ceiling holds."
                                  : "Nothing is counted, and nothing holds.";
      out.answers = {answer(Verdict::allowed, Reason::store_unavailable,
                            route.ceiling ? "the ceiling has room" : "anything else")};
      if (route.ceiling) out.answers.push_back(over_ceiling);
      break;
  }
  if (route.rules.empty()) {
    out.meaning = "The route has no limit, so nothing needs the store.";
    out.answers = {answer(Verdict::allowed, Reason::no_limit, "always")};
    return out;
  }
  out.answers.insert(out.answers.begin(), answer(Verdict::limited, Reason::over_limit,
                                                 "the store's last answer still denies it"));
  if (fallback) {
    out.meaning =
        "The fallback store counts, whole limits of its own. Without it too: " + out.meaning;
    out.answers.insert(
        out.answers.begin(),
        {answer(Verdict::allowed, Reason::within_limit, "the fallback store says that it fits"),
         answer(Verdict::limited, Reason::over_limit, "the fallback store says that it does not")});
  }
  return out;
}

StateOfStore returning(const Model& model, const Route& route, const StateOfStore& away,
                       const ExplainOptions& options) {
  StateOfStore out = answering(model, route, options);
  out.state = StoreState::returning;
  out.meaning = returning_in_words(model.store);
  out.bounds = bounds_of_a_change(model, route, options);
  for (Answer each : away.answers) {
    each.when = "of keys not yet back: " + each.when;
    out.answers.push_back(std::move(each));
  }
  return out;
}

// Whether a ceiling holds anybody while the store is away.
bool under_ceiling(const Route& route) {
  return route.ceiling && route.when_store_fails != FailurePolicy::closed && !denies_nobody(route);
}

bool overspends(const Route& route) {
  return route.overspend && route.overspend->mode == policy::OverspendMode::cap;
}

std::vector<std::string> besides(const Model& model, const Route& route,
                                 const ExplainOptions& options) {
  std::vector<std::string> out;
  if (route.rules.empty()) return out;
  const bool parts = route.when_store_fails == FailurePolicy::bounded ||
                     route.when_store_fails == FailurePolicy::settle;
  if (counts_apart(model, options))
    out.push_back(apart_in_words(options.workers) + ". A store that they share makes it one.");
  if (is_embedded(model)) {
    out.push_back("A restart of this process forgets its counters: each adds at most the limit.");
  } else {
    out.push_back("Each time the store loses its data, at most the limit is added.");
    if (parts && options.workers > 0)
      out.push_back(
          "A worker that is restarted, replaced or leaves in an outage, or between two of one "
          "window, adds its part once more" +
          std::string(overspends(route) ? ", that of the overspend, too." : "."));
    if (model.store.fallback_url)
      out.push_back(
          "The fallback store " + policy::redacted(*model.store.fallback_url) +
          " is asked before the policy; what it admits is on top, at most the limit, and is "
          "in the bounds.");
  }
  if (std::string recorded = recorded_in_words(model, route); !recorded.empty())
    out.push_back(std::move(recorded));
  if (std::string reserved = reservations_in_words(route); !reserved.empty())
    out.push_back(std::move(reserved) + ".");
  if (under_ceiling(route))
    out.push_back("All keys together, without the store: at most " +
                  std::to_string(most_under_ceiling(route.ceiling->numbers,
                                                    workers_everywhere(model, options.workers),
                                                    Nanos(route.ceiling->numbers.period_ns))) +
                  " in any " + interval_in_words(Nanos(route.ceiling->numbers.period_ns)) +
                  " (ceiling " + route.ceiling->text + " a worker).");
  return out;
}

// The most that one key is admitted while the store is away for so long.
std::optional<std::uint64_t> most_without_store(const Route& route, const Rule& rule,
                                                const limit::Numbers& numbers, Nanos length,
                                                std::uint64_t regions,
                                                std::optional<std::uint64_t> ceilings) {
  if (route.when_store_fails == FailurePolicy::closed) return 0;
  std::optional<std::uint64_t> most;
  if (route.when_store_fails == FailurePolicy::bounded)
    most = times(regions, most_in(numbers, length));
  const auto overspend = overspend_of(route, rule);
  if (route.when_store_fails == FailurePolicy::settle && overspend)
    most = times(regions, most_in(numbers, length) + *overspend);
  if (!most || !ceilings) return most ? most : ceilings;
  return std::min(*most, *ceilings);
}

std::optional<std::uint64_t> most_in_outage(const Model& model, const Route& route,
                                            const Rule& rule, Nanos length,
                                            std::optional<std::uint64_t> ceilings) {
  if (rule.shadow || route.shadow) return std::nullopt;
  return most_of_keys(rule, [&](const limit::Numbers& numbers) {
    const std::uint64_t regions = regions_of(model);
    auto most = most_without_store(route, rule, numbers, length, regions, ceilings);
    if (most && model.store.fallback_url)
      *most += times(regions, most_in(numbers, length + clocks_apart(model)));
    return most;
  });
}

ExplainedOutage outage_of(const Model& model, const Route& route, const ExplainOptions& options) {
  const Nanos length = *options.outage;
  ExplainedOutage out{.length = length, .back_within = back_within(model.store, length)};
  if (under_ceiling(route))
    out.all_keys = most_under_ceiling(route.ceiling->numbers,
                                      workers_everywhere(model, options.workers), length);
  for (const Rule& rule : route.rules)
    out.bounds.push_back({rule.name, most_in_outage(model, route, rule, length, out.all_keys)});
  return out;
}

ExplainedRule explained(const Route& route, const Rule& rule, Nanos apart) {
  const auto in_period = [apart](const limit::Numbers& numbers) -> std::optional<std::uint64_t> {
    return most_in(numbers, Nanos(numbers.period_ns) + apart);
  };
  std::uint64_t of_overrides = 0;
  for (const auto& [value, numbers] : rule.overrides)
    of_overrides = std::max(of_overrides, most_in_window(numbers, apart));
  return ExplainedRule{
      .name = rule.name,
      .numbers = rule.numbers,
      .most_in_window = std::max(most_in_window(rule.numbers, apart), of_overrides),
      .most_in_period = *most_of_keys(rule, in_period),
      .counted = counted_in_words(rule, apart),
      .shadow = rule.shadow || route.shadow,
      .meter = rule.meter,
      .exemptions = rule.exempt.size(),
      .overrides = rule.overrides.size(),
      .most_of_overrides = of_overrides,
  };
}

ExplainedRoute explained(const Model& model, const Route& route, const ExplainOptions& options) {
  ExplainedRoute out{.name = route.name,
                     .heading = route.name,
                     .protects = route.protects,
                     .policy = route.when_store_fails,
                     .policy_reason = policy_reason(route),
                     .ceiling = route.ceiling ? route.ceiling->text : ""};
  for (const policy::Match& match : route.matches) out.matches.push_back(match_in_words(match));
  for (const Rule& rule : route.rules)
    out.rules.push_back(explained(route, rule, clocks_apart(model)));
  out.states.push_back(answering(model, route, options));
  const StateOfStore gone = away(model, route, options);
  out.states.push_back(slow(model, route, gone, options));
  out.states.push_back(gone);
  out.states.push_back(returning(model, route, gone, options));
  out.besides = besides(model, route, options);
  if (options.outage) out.outage = outage_of(model, route, options);
  return out;
}

// A part of a domain. One that says nothing has no answer for a store that is away.
ExplainedRoute explained(const Model& model, const policy::DomainScope& scope,
                         const ExplainOptions& options) {
  ExplainedRoute out = explained(model, scope.route, options);
  out.heading = "domain " + scope.route.name + (scope.path.empty() ? "" : ", below " + scope.path);
  out.decided = scope.decided || model.rls.protects;
  if (out.decided) {
    if (!scope.decided) out.policy_reason = "rls: " + out.policy_reason;
    return out;
  }
  out.policy_reason = "says nothing about its store being away";
  out.states.resize(1);
  out.besides.clear();
  if (counts_apart(model, options)) out.besides.push_back(apart_in_words(options.workers) + ".");
  out.besides.push_back(
      "A shared store is not served before it is said: protects: or when_store_fails: in the file, "
      "rls: {protects: ...} in weir.yaml, or --protects.");
  out.outage.reset();
  return out;
}

std::vector<std::string> facts_of_memory(const Model& model, const ExplainOptions& options) {
  std::vector<std::string> out = {
      "The counters are in this process: they are exact, and they cannot be slow or away.",
      "They hold at most " + std::to_string(model.store.memory_keys) +
          " live keys; a new one beyond that is refused with 503."};
  if (counts_apart(model, options))
    out.push_back(apart_in_words(options.workers) +
                  ", which is what the table says of a store that answers.");
  out.push_back(
      "What is said below of a store that is slow or away holds once a fleet shares one "
      "(store: redis://...).");
  return out;
}

std::vector<std::string> store_facts(const Model& model, const ExplainOptions& options) {
  if (is_embedded(model)) return facts_of_memory(model, options);
  std::vector<std::string> out = {"Every worker asks this store, so all of them share each limit."};
  out.push_back("Slow: " + slow_in_words(model.store));
  out.push_back("Coming back: " + returning_in_words(model.store));
  if (model.store.startup == policy::Startup::require)
    out.push_back("A worker does not start without it.");
  if (model.store.regions > 1)
    out.push_back("Each of " + std::to_string(model.store.regions) +
                  " regions has one of its own, with as many workers, and grants the whole limit: "
                  "what is said to be the most is of all regions together.");
  if (model.store.client_clock)
    out.push_back(
        "Workers count by their own clocks, each within 400 ms of the store's: windows may begin "
        "that much early or late, and what is said of any interval counts the 0.8 s that two of "
        "them "
        "may be apart.");
  return out;
}

std::vector<std::string> request_facts(const Model& model) {
  std::vector<std::string> out;
  const bool matches = std::any_of(model.routes.begin(), model.routes.end(),
                                   [](const Route& route) { return !route.matches.empty(); });
  if (matches)
    out.push_back(model.unmatched == policy::Unmatched::allow
                      ? "A request that no route matches is allowed, unchecked."
                      : "A request that no route matches is refused with 503.");
  if (!model.domains.empty())
    out.push_back(std::string("A request of a domain that no file describes is ") +
                  (model.unmatched == policy::Unmatched::allow ? "allowed" : "refused") +
                  "; one whose descriptors meet no limit is allowed.");
  if (model.rls.envoyproxy_prefix)
    out.push_back(
        "Domains are counted on envoyproxy/ratelimit's own keys (rls.keys): a denied request is "
        "added too, and nothing is given back, nor told afterwards of what is admitted while the "
        "store is away.");
  if (model.routes.empty()) return out;
  out.push_back(model.default_route.empty()
                    ? "A caller that names no route of this policy gets 404."
                    : "A caller that names no route of this policy gets route " +
                          model.default_route + ".");
  return out;
}

}  // namespace

std::string_view to_string(StoreState state) {
  switch (state) {
    case StoreState::answers:
      return "answers";
    case StoreState::slow:
      return "is slow";
    case StoreState::away:
      return "is away";
    case StoreState::returning:
      return "comes back";
  }
  return "unknown";
}

Result<Explanation> explain(const Model& model, const ExplainOptions& options) {
  Explanation out{.store = policy::redacted(model.store.url),
                  .embedded = is_embedded(model),
                  .workers = std::max(options.workers, 1u),
                  .regions = regions_of(model)};
  out.deadline = policy::to_text(model.store.deadline);
  if (!out.embedded) out.clock = model.store.client_clock ? "client" : "store";
  ExplainOptions checked = options;
  checked.workers = out.workers;
  out.store_facts = store_facts(model, checked);
  out.request_facts = request_facts(model);
  for (const Route& route : model.routes)
    if (options.route.empty() || route.name == options.route)
      out.routes.push_back(explained(model, route, checked));
  for (const policy::Domain& domain : model.domains)
    for (const policy::DomainScope& scope : domain.scopes)
      if (options.route.empty() || domain.name == options.route)
        if (!scope.route.rules.empty()) out.routes.push_back(explained(model, scope, checked));
  for (policy::BreakerSpec spec : model.breakers) {
    if (!options.route.empty() && spec.name != options.route) continue;
    spec.shared = spec.shared && !counts_apart(model, checked);
    out.safeguards.push_back(explained(spec));
  }
  for (policy::ConcurrencySpec spec : model.concurrency) {
    if (!options.route.empty() && spec.name != options.route) continue;
    spec.shared = spec.shared && !counts_apart(model, checked);
    out.safeguards.push_back(explained(spec, out.workers));
  }
  if (out.routes.empty() && out.safeguards.empty() && !options.route.empty())
    return Error{ErrorCode::not_found, "the policy has no route '" + std::string(options.route) +
                                           "', nor a domain of "
                                           "that name with limits"};
  if (options.outage && !out.embedded) {
    out.plan = plan_outage(model, out.workers, *options.outage, options.offered, options.route);
  }
  return out;
}

}  // namespace weir::ladder
