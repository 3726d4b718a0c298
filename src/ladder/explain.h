#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ladder/outage.h"
#include "policy/model.h"
#include "weir/decision.h"
#include "weir/result.h"

namespace weir::ladder {

// What a store can do to a request, as `weir explain` tells it.
enum class StoreState : std::uint8_t { answers, slow, away, returning };

std::string_view to_string(StoreState state);

// Of the outages that are worked out; a longer one is no outage.
inline constexpr Nanos kLongestOutage = std::chrono::hours(24 * 365);

struct ExplainOptions {
  std::string_view route;          // or domain, breaker, limit; empty: all of them
  std::uint32_t workers = 1;       // processes that share the limits
  std::optional<Nanos> outage;     // how long the store is away
  std::optional<Offered> offered;  // with an outage: who asks each route
};

// One answer a request can get, and when it gets it.
struct Answer {
  Verdict verdict = Verdict::allowed;
  int status = 200;
  std::string when;
};

struct RuleBound {
  std::string rule;
  // Units, one key, one window, of the key that may have most: some values have numbers of their
  // own. Absent: nothing bounds it.
  std::optional<std::uint64_t> most;
};

struct StateOfStore {
  StoreState state = StoreState::answers;
  std::string meaning;  // a sentence or two
  std::vector<Answer> answers;
  std::vector<RuleBound> bounds;
};

struct ExplainedRule {
  std::string name;
  limit::Numbers numbers;
  // Of the key that may have most, while the store answers: see bound.h. The second in any interval
  // of one period, wherever it begins.
  std::uint64_t most_in_window = 0;
  std::uint64_t most_in_period = 0;
  std::string counted;  // how, in words
  bool shadow = false;
  bool meter = false;
  std::size_t exemptions = 0;
  std::size_t overrides = 0;
  std::uint64_t most_of_overrides = 0;  // in one window, of the largest of them
};

struct ExplainedOutage {
  Nanos length{0};
  Nanos back_within{0};  // from the store's first answer until all keys are asked there again
  std::vector<RuleBound> bounds;          // per key, during the outage
  std::optional<std::uint64_t> all_keys;  // under the ceiling, all keys of the route together
};

// A route, or a part of an Envoy-style domain under one failure policy.
struct ExplainedRoute {
  std::string name;
  std::string heading;  // "login", "domain shop, below login"
  bool decided = true;  // false: a domain that does not say what happens without the store
  std::vector<std::string> matches;
  std::optional<Protects> protects;
  FailurePolicy policy = FailurePolicy::closed;
  std::string policy_reason;  // "protects security", or "when_store_fails"
  std::string ceiling;        // empty: none
  std::vector<ExplainedRule> rules;
  std::vector<StateOfStore> states;
  std::vector<std::string> besides;  // what else can add to the bound
  std::optional<ExplainedOutage> outage;
};

// A breaker or a concurrency limit, in sentences.
struct ExplainedSafeguard {
  std::string kind;  // "breaker", "concurrency"
  std::string name;
  std::vector<std::string> facts;
};

// A policy in words: what each route does with the store answering, slow, away and coming back.
struct Explanation {
  std::string store;  // without credentials
  bool embedded = false;
  std::uint32_t workers = 1;  // of each region
  std::uint32_t regions = 1;
  std::string clock;                       // whose decides, "store" or "client"; empty: embedded
  std::string deadline;                    // what a request waits for the store
  std::vector<std::string> store_facts;    // sentences about the store
  std::vector<std::string> request_facts;  // what becomes of requests without a route
  std::vector<ExplainedRoute> routes;
  std::optional<OutagePlan>
      plan;  // of an outage, where the counters are in a store that can be away
  std::vector<ExplainedSafeguard> safeguards;
};

// Errors:      not_found: no route or domain of that name.
Result<Explanation> explain(const policy::Model& model, const ExplainOptions& options);

// As a person reads it, at most 100 columns, and as programs do: one JSON object a line, one a
// route, and after these one of the outage, with `outage_ms`.
std::string explain_text(const Explanation& explanation);
std::string explain_json(const Explanation& explanation);

}  // namespace weir::ladder
