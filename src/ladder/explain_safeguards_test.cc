#include "ladder/explain_safeguards.h"

#include <gtest/gtest.h>

#include "policy/load.h"

namespace weir::ladder {
namespace {

policy::Loaded loaded(std::string_view text) {
  return policy::load_text(text, "weir.yaml");
}

TEST(ExplainSafeguards, SaysWhatABreakerDoes) {
  const auto policy = loaded(R"(
breakers:
  payments: {consecutive_failures: 5, slow_rate: 80%, slow_call: 2s}
  mail: {failure_rate: off, consecutive_failures: 1, ramp: off, shadow: true}
)");
  ASSERT_TRUE(policy.model);
  const std::string text = explain_text(*explain(*policy.model, {}));
  EXPECT_NE(
      text.find("breaker payments\n"
                "  Opens after 5 failures in a row, or once 50 % of the calls fail or 80 % take "
                "longer than 2s, of\n"
                "  those of the last 10s and at least 20.\n"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("  After that 10 % of the calls go, and 150 % of that with every step of 1s: "
                      "all of them after 6s. 3\n  failed steps open it again.\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("breaker mail\n  Opens after 1 failure.\n"), std::string::npos) << text;
  EXPECT_NE(text.find("After that every call goes."), std::string::npos) << text;
  EXPECT_NE(text.find("In shadow:"), std::string::npos) << text;
}

TEST(ExplainSafeguards, SizesALimitByLittlesLaw) {
  const auto policy = loaded(R"(
inputs: [account]
concurrency:
  reports: {limit: 112, by: account, expect: {per_second: 2000, p99: 40ms}}
)");
  ASSERT_TRUE(policy.model);
  const std::string text = explain_text(*explain(*policy.model, {}));
  EXPECT_NE(text.find("At most 112 under way at once for each account, in each worker."),
            std::string::npos)
      << text;
  EXPECT_NE(
      text.find("Little's law: 2000 calls a second of 40ms are 80 under way at once; with room "
                "for bursts 96 to\n  112. The limit of 112 holds that."),
      std::string::npos)
      << text;
}

TEST(ExplainSafeguards, SaysWhatAFleetShares) {
  const std::string shared = R"(
breakers:
  payments: {shared: true}
concurrency:
  reports: {limit: 10, shared: true, expect: {per_second: 200, p99: 40ms}}
)";
  const auto policy = loaded("store: redis://127.0.0.1" + shared);
  ASSERT_TRUE(policy.model);
  const std::string text = explain_text(*explain(*policy.model, {.workers = 3}));
  EXPECT_NE(text.find("Shared by the fleet: of the workers that saw enough calls, 30 %"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("At most 10 under way at once, in the whole fleet."), std::string::npos)
      << text;
  EXPECT_NE(text.find("its part of the limit, 3 or 4 of 10"), std::string::npos) << text;
  EXPECT_NE(text.find("The limit of 10 holds that."), std::string::npos) << text;
  // In a memory each there is nothing that could be shared.
  const auto apart = loaded(shared);
  ASSERT_TRUE(apart.model);
  const std::string each = explain_text(*explain(*apart.model, {.workers = 3}));
  EXPECT_EQ(each.find("fleet"), each.find("fleet shares one (store")) << each;
  EXPECT_NE(each.find("At most 10 under way at once, in each worker: 30 over 3 workers."),
            std::string::npos)
      << each;
}

TEST(ExplainSafeguards, AreFoundByNameAndSpokenOfInJson) {
  const auto policy = loaded("breakers: {payments: {}}\nconcurrency: {exports: {limit: 3}}\n");
  ASSERT_TRUE(policy.model);
  const auto one = explain(*policy.model, {.route = "exports"});
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(explain_text(*one).find("payments"), std::string::npos);
  EXPECT_EQ(explain_json(*one).rfind(R"({"concurrency":"exports","facts":["At most 3)", 0), 0U)
      << explain_json(*one);
  EXPECT_FALSE(explain(*policy.model, {.route = "nobody"}).has_value());
}

}  // namespace
}  // namespace weir::ladder
