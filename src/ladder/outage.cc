#include "ladder/outage.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/wide.h"
#include "ladder/bound.h"
#include "ladder/explain_words.h"
#include "policy/duration.h"
#include "policy/period.h"
#include "policy/short_form.h"

namespace weir::ladder {
namespace {

using policy::Model;
using policy::Route;
using policy::Rule;
using Units = std::optional<std::uint64_t>;  // absent: without end

constexpr std::uint64_t kMostClients = 1'000'000'000;

std::uint64_t clamped(Wide units) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  return units > kMost ? kMost : static_cast<std::uint64_t>(units);
}

std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  return clamped(Wide{a} * b);
}

// The narrower of two, where absent is the widest.
Units narrower(Units a, Units b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

Units sum(Units a, Units b) {
  if (!a || !b) return std::nullopt;
  return clamped(Wide{*a} + *b);
}

// What one thing may be changed to, to see what it is good for.
struct Knobs {
  policy::StoreSpec store;
  std::uint32_t workers = 1;
  std::uint64_t ceiling_divisor = 1;
};

class Planner {
 public:
  Planner(const Model& model, Nanos outage, const std::optional<Offered>& offered,
          std::string_view only)
      : outage_(outage), offered_(offered) {
    for (const Route& route : model.routes) take(route, only);
    for (const policy::Domain& domain : model.domains) {
      for (const policy::DomainScope& scope : domain.scopes) {
        if (scope.decided || model.rls.protects) take(scope.route, only);
      }
    }
  }

  OutagePlan plan(const Knobs& knobs) const {
    const policy::StoreSpec& store = knobs.store;
    OutagePlan out{.outage = outage_,
                   .workers = knobs.workers,
                   .regions = store.regions,
                   .failures = store.breaker.failures,
                   .deadline = store.deadline,
                   .detection = detection(knobs),
                   .arrivals_known = has_rate(),
                   .cooldown = cooldown_within(store, outage_),
                   .ramp = store.recovery.step * store.recovery.steps};
    out.most = 0;
    if (has_rate()) out.offered = 0;
    for (const Route* route : routes_) {
      out.routes.push_back(of_route(*route, out.without(), knobs));
      out.most = sum(out.most, out.routes.back().most);
      if (has_rate()) out.offered = sum(out.offered, out.routes.back().offered);
    }
    return out;
  }

  bool has_ceilings() const {
    return std::any_of(routes_.begin(), routes_.end(), [](const Route* route) {
      return route->ceiling && route->when_store_fails != FailurePolicy::closed;
    });
  }

 private:
  void take(const Route& route, std::string_view only) {
    if (!route.rules.empty() && (only.empty() || route.name == only)) routes_.push_back(&route);
  }

  bool has_rate() const { return offered_ && offered_->per > Nanos{0}; }

  static std::uint32_t everywhere(const Knobs& knobs) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(
        times(knobs.workers, knobs.store.regions), std::numeric_limits<std::uint32_t>::max()));
  }

  // Rounded up: what clients may ask in a time.
  Units offered_in(Nanos time) const {
    if (!has_rate()) return std::nullopt;
    const Wide asked = (Wide{offered_->requests} * static_cast<std::uint64_t>(time.count()) +
                        static_cast<std::uint64_t>(offered_->per.count()) - 1) /
                       static_cast<std::uint64_t>(offered_->per.count());
    return clamped(asked * offered_->clients);
  }

  // The first of the failures in a row has waited, and the others came after it.
  Nanos detection(const Knobs& knobs) const {
    if (!has_rate() || offered_->requests == 0 || routes_.empty()) return knobs.store.deadline;
    const Wide calls = Wide{offered_->requests} * offered_->clients * routes_.size();
    const Wide apart =
        Wide{static_cast<std::uint64_t>(offered_->per.count())} * everywhere(knobs) / calls;
    const Wide more = apart * (knobs.store.breaker.failures - 1);
    const Wide most = static_cast<std::uint64_t>(outage_.count());
    return knobs.store.deadline + Nanos{static_cast<std::int64_t>(std::min(more, most))};
  }

  // Of the key that may have most: some values have numbers of their own. In one region.
  static std::uint64_t most_of_a_key(const Rule& rule, Nanos time) {
    std::uint64_t most = most_in(rule.numbers, time);
    for (const auto& [value, numbers] : rule.overrides)
      most = std::max(most, most_in(numbers, time));
    return most;
  }

  // Of all keys of a rule, where each may have so much; without clients: of as many as come.
  Units of_keys(const Rule& rule, std::uint64_t each) const {
    if (rule.by.empty()) return each;
    if (!offered_) return each == 0 ? Units(0) : std::nullopt;
    return times(each, offered_->clients);
  }

  // What a metered rule serves beyond its parts, one key.
  static Units overspend_of(const Route& route, const Rule& rule) {
    if (!rule.meter || !route.overspend) return 0;
    if (route.overspend->mode != policy::OverspendMode::cap) return std::nullopt;
    return route.overspend->cap;
  }

  Units without_store(const Route& route, Nanos time, const Knobs& knobs) const {
    const FailurePolicy policy = route.when_store_fails;
    if (denies_nobody(route)) return std::nullopt;
    if (policy == FailurePolicy::closed) return 0;
    Units most;
    for (const Rule& rule : route.rules) {
      if (rule.shadow || route.shadow || policy == FailurePolicy::open) continue;
      const std::uint64_t parts = most_of_a_key(rule, time);
      const Units each =
          policy == FailurePolicy::settle ? sum(parts, overspend_of(route, rule)) : Units(parts);
      if (each) most = narrower(most, of_keys(rule, times(*each, knobs.store.regions)));
    }
    if (!route.ceiling) return most;
    return narrower(most, most_under_ceiling(route.ceiling->numbers, everywhere(knobs), time) /
                              knobs.ceiling_divisor);
  }

  OutageOfRoute of_route(const Route& route, Nanos time, const Knobs& knobs) const {
    OutageOfRoute out{.name = route.name, .offered = offered_in(time)};
    Units with_store;
    for (const Rule& rule : route.rules) {
      if (rule.shadow || route.shadow) continue;
      with_store = narrower(with_store,
                            of_keys(rule, times(most_of_a_key(rule, time), knobs.store.regions)));
    }
    out.with_store = narrower(with_store, out.offered);
    out.most = narrower(without_store(route, time, knobs), out.offered);
    return out;
  }

  const Nanos outage_;
  const std::optional<Offered> offered_;
  std::vector<const Route*> routes_;
};

std::string knob(const char* name, const std::string& instead, const std::string& now) {
  return std::string(name) + " " + instead + " (now " + now + ")";
}

// What is tried of each thing that can be set.
std::vector<std::pair<std::string, Knobs>> tries(const Knobs& now, bool has_ceilings) {
  std::vector<std::pair<std::string, Knobs>> out;
  const auto add = [&](std::string name, auto change) {
    out.emplace_back(std::move(name), now);
    change(out.back().second);
  };
  const policy::StoreSpec& store = now.store;
  // Half of it, in whole milliseconds where there are any.
  constexpr Nanos kMs = std::chrono::milliseconds(1);
  const Nanos half =
      store.deadline >= 2 * kMs ? store.deadline / 2 / kMs * kMs : store.deadline / 2;
  add(knob("deadline", policy::to_text(half), policy::to_text(store.deadline)),
      [&](Knobs& knobs) { knobs.store.deadline = half; });
  if (store.breaker.failures > 1) {
    const std::uint32_t fewer = (store.breaker.failures + 1) / 2;
    add(knob("failures", std::to_string(fewer), std::to_string(store.breaker.failures)),
        [&](Knobs& knobs) { knobs.store.breaker.failures = fewer; });
  }
  const Nanos shorter = std::max(store.breaker.max_cooldown / 4, store.breaker.cooldown);
  add(knob("max_cooldown", policy::to_text(shorter), policy::to_text(store.breaker.max_cooldown)),
      [&](Knobs& knobs) { knobs.store.breaker.max_cooldown = shorter; });
  add(knob("steps", "1", std::to_string(store.recovery.steps)),
      [](Knobs& knobs) { knobs.store.recovery.steps = 1; });
  if (has_ceilings) {
    add("every ceiling halved", [](Knobs& knobs) { knobs.ceiling_divisor = 2; });
  }
  add(knob("workers", std::to_string(now.workers * 2), std::to_string(now.workers)),
      [](Knobs& knobs) { knobs.workers *= 2; });
  return out;
}

std::optional<std::uint64_t> number_at(std::string_view& text) {
  std::uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || number == 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
  return number;
}

}  // namespace

Result<Offered> parse_offered(std::string_view text) {
  const Error wrong{ErrorCode::invalid_argument,
                    "'" + std::string(text) + "' must be " + std::string(kOfferedForm)};
  std::string_view rest = text;
  const auto clients = number_at(rest);
  if (!clients || *clients > kMostClients) return wrong;
  const std::string_view word = rest.starts_with(" clients at ")  ? " clients at "
                                : rest.starts_with(" client at ") ? " client at "
                                                                  : std::string_view();
  if (word.empty()) return wrong;
  rest.remove_prefix(word.size());
  policy::Problem problem;
  const auto rate = policy::parse_short_limit(rest, problem);
  if (!rate || !rate->by.empty() || rate->requests == 0) return wrong;
  const auto period = policy::period_of(rate->per, Algorithm::gcra);
  if (!period || period->length <= Nanos{0}) return wrong;
  return Offered{.clients = *clients, .requests = rate->requests, .per = period->length};
}

Nanos cooldown_within(const policy::StoreSpec& store, Nanos outage) {
  Nanos cooldown = store.breaker.cooldown;
  for (Nanos elapsed = cooldown; elapsed < outage && cooldown < store.breaker.max_cooldown;
       elapsed += cooldown)
    cooldown = std::min(cooldown * 2, store.breaker.max_cooldown);
  const auto jitter = static_cast<std::int64_t>(store.breaker.jitter * 100 + 0.5);
  return cooldown + cooldown * jitter / 100;
}

OutagePlan plan_outage(const Model& model, std::uint32_t workers, Nanos outage,
                       const std::optional<Offered>& offered, std::string_view route,
                       std::optional<std::uint32_t> regions) {
  const Planner planner(model, outage, offered, route);
  Knobs now{.store = model.store, .workers = std::max(workers, 1U)};
  if (regions) now.store.regions = *regions;
  OutagePlan plan = planner.plan(now);
  for (const auto& [name, knobs] : tries(now, planner.has_ceilings())) {
    const OutagePlan other = planner.plan(knobs);
    if (other.detection == plan.detection && other.without() == plan.without() &&
        other.most == plan.most) {
      continue;
    }
    plan.instead.push_back({.knob = name,
                            .detection = other.detection,
                            .without = other.without(),
                            .most = other.most});
  }
  return plan;
}

}  // namespace weir::ladder
