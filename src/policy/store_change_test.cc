#include "policy/store_change.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "weir/policy.h"

namespace weir::policy {
namespace {

using Names = std::vector<std::string>;

StoreSpec store_of(const std::string& fields) {
  const auto policy = Policy::parse("store: {url: 'rediss://h', " + fields +
                                    "}\nroutes: {r: {limits: [], protects: nothing}}\n");
  EXPECT_TRUE(policy) << policy.error().message;
  return policy ? policy->model().store : StoreSpec();
}

// What a reload cannot carry out, it must not take: each of these was taken once, shown by explain
// and not in force.
TEST(StoreChange, NamesEveryFieldThatAReloadCannotChange) {
  const std::vector<std::pair<std::string, Names>> changes = {
      {"fallback: 'rediss://g'", {"store.fallback"}},
      {"deadline: 9s", {"store.deadline"}},
      {"connect_timeout: 9s", {"store.connect_timeout"}},
      {"username: ann, password_file: /p", {"store.username", "store.password_file"}},
      {"tls: {server_name: other}", {"store.tls"}},
      {"prefix: other", {"store.prefix"}},
      {"clock: client", {"store.clock"}},
      {"startup: require", {"store.startup"}},
      {"breaker: {failures: 900}", {"store.breaker.failures"}},
      {"breaker: {slow_call: 5ms}", {"store.breaker.slow_call"}},
      {"breaker: {slow_call: 5ms, slow_rate: 9%}",
       {"store.breaker.slow_call", "store.breaker.slow_rate"}},
      {"breaker: {cooldown: 1s}", {"store.breaker.cooldown"}},
      {"breaker: {max_cooldown: 9s}", {"store.breaker.max_cooldown"}},
      {"breaker: {jitter: 9%}", {"store.breaker.jitter"}},
      {"recovery: {steps: 9}", {"store.recovery.steps"}},
      {"recovery: {step: 9s}", {"store.recovery.step"}},
      {"workers: {of: 3}", {"store.workers.of"}},
      {"workers: {name: ann}", {"store.workers.name"}},
      {"workers: {state: /s}", {"store.workers.state"}},
      {"regions: 2", {"store.regions"}},
      {"known_keys: 5000", {"store.known_keys"}},
      {"max_keys: 5000", {"store.max_keys"}},
  };
  const StoreSpec plain = store_of("");
  for (const auto& [fields, named] : changes) {
    EXPECT_EQ(changed_fields(plain, store_of(fields)), named) << fields;
    EXPECT_EQ(changed_fields(store_of(fields), plain), named) << "taken out: " << fields;
    EXPECT_EQ(changed_fields(store_of(fields), store_of(fields)), Names{}) << fields;
  }
  StoreSpec other = plain;
  other.url = "rediss://g";
  EXPECT_EQ(changed_fields(plain, other), Names{"store.url"});
  const auto pair_of = [](const std::string& one, const std::string& two) {
    return changed_fields(store_of(one), store_of(two));
  };
  EXPECT_EQ(pair_of("password_file: /p", "password_file: /q"), Names{"store.password_file"});
  EXPECT_EQ(pair_of("breaker: {slow_call: 5ms}", "breaker: {slow_call: 5ms, slow_rate: 9%}"),
            Names{"store.breaker.slow_rate"});
  EXPECT_EQ(pair_of("workers: {of: 3, index: 1}", "workers: {of: 3, index: 2}"),
            Names{"store.workers.index"});
}

TEST(StoreChange, SpellingsOfOneDeadlineAreTheSame) {
  EXPECT_EQ(changed_fields(store_of("deadline: 20ms"), store_of("deadline: 10% of 200ms")),
            Names{});
  EXPECT_EQ(changed_fields(store_of("deadline: 20ms"), store_of("deadline: 10% of 300ms")),
            Names{"store.deadline"});
}

}  // namespace
}  // namespace weir::policy
