#include "policy/rule_draft.h"

#include <algorithm>

#include "policy/identity.h"

namespace weir::policy {
namespace {

// Past this many entries a log of every charge is no default any more: it costs memory.
constexpr std::uint64_t kMostLoggedByDefault = 1'000;
constexpr std::size_t kMaxNameBytes = 128;

std::string default_name(const RuleDraft& draft) {
  std::string out = std::to_string(draft.requests) + " per " + to_text(draft.per);
  for (std::size_t i = 0; i < draft.by.size(); ++i)
    out += (i == 0 ? " by " : ", ") + draft.by[i].text;
  return out;
}

void check_burst(const RuleDraft& draft, Algorithm algorithm, std::vector<DraftProblem>& problems) {
  if (!draft.burst) return;
  if (algorithm != Algorithm::gcra) {
    problems.push_back(
        {"burst", "belongs to gcra; this limit counts by " + std::string(to_string(algorithm)),
         "algorithm: gcra, or no burst"});
  } else if (draft.requests == 0) {
    problems.push_back({"burst", "means nothing where the limit is 0", "no burst"});
  }
}

void check_sources(const std::vector<Source>& by, std::vector<DraftProblem>& problems) {
  if (by.size() > kMaxSources)
    problems.push_back({"by", "names more than " + std::to_string(kMaxSources) + " sources",
                        "at most " + std::to_string(kMaxSources)});
  for (std::size_t i = 1; i < by.size(); ++i) {
    if (by[i].canonical() != by[i - 1].canonical()) continue;
    problems.push_back({"by", "names '" + by[i].text + "' twice", "each source once"});
  }
}

}  // namespace

Algorithm algorithm_of(const RuleDraft& draft, std::optional<Protects> protects) {
  if (draft.algorithm) return *draft.algorithm;
  return protects == Protects::security ? Algorithm::sliding_log : Algorithm::gcra;
}

std::optional<limit::Numbers> build_numbers(const RuleDraft& draft, Algorithm algorithm,
                                            std::vector<DraftProblem>& problems) {
  const auto period = period_of(draft.per, algorithm);
  if (!period) {
    problems.push_back({"per", "is longer than can be counted", "at most 10 years"});
    return std::nullopt;
  }
  auto numbers = limit::Numbers::make(limit::Request{
      .algorithm = algorithm, .limit = draft.requests, .period = *period, .burst = draft.burst});
  if (numbers) return *numbers;
  const std::string& why = numbers.error().message;
  const std::string_view field = why.starts_with("the period")            ? "per"
                                 : why.find(" burst ") < why.find(" at ") ? "burst"
                                                                          : "requests";
  problems.push_back({field, "is refused: " + why, ""});
  return std::nullopt;
}

std::optional<Rule> build_rule(const RuleDraft& draft, std::string_view route,
                               std::optional<Protects> protects,
                               std::vector<DraftProblem>& problems) {
  const std::size_t before = problems.size();
  const Algorithm algorithm = algorithm_of(draft, protects);
  Rule rule{.name = draft.name.empty() ? default_name(draft) : draft.name,
            .per = draft.per,
            .by = draft.by,
            .shadow = draft.shadow,
            .strict = draft.strict,
            .meter = draft.meter,
            .place = draft.place};
  canonical_order(rule.by);
  check_sources(rule.by, problems);
  check_burst(draft, algorithm, problems);
  if (!draft.algorithm && algorithm == Algorithm::sliding_log &&
      draft.requests > kMostLoggedByDefault)
    problems.push_back(
        {"requests",
         "is above 1000 on a route that protects security, where each request would be remembered; "
         "say how it counts",
         "algorithm: sliding_log (exact, about 16 bytes a request), gcra, sliding_window or "
         "fixed_window"});
  if (problems.size() > before) return std::nullopt;
  const auto numbers = build_numbers(draft, algorithm, problems);
  if (!numbers) return std::nullopt;
  rule.numbers = *numbers;
  rule.identity_text =
      identity_text(draft.name.empty() ? Owner::route : Owner::name,
                    draft.name.empty() ? route : draft.name, rule.by, draft.per, algorithm);
  rule.identity = identity_hash(rule.identity_text);
  return rule;
}

void assign_slots(Route& route) {
  route.sources.clear();
  for (Rule& rule : route.rules) {
    rule.slots.clear();
    for (const Source& source : rule.by) {
      const std::string canonical = source.canonical();
      const auto known =
          std::find_if(route.sources.begin(), route.sources.end(),
                       [&](const Source& other) { return other.canonical() == canonical; });
      rule.slots.push_back(static_cast<std::uint8_t>(known - route.sources.begin()));
      if (known == route.sources.end()) route.sources.push_back(source);
    }
  }
}

bool is_rule_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
}

bool is_route_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  std::string_view("_-.:/").find(c) != std::string_view::npos;
         });
}

}  // namespace weir::policy
