#include "policy/envoy/name_trial.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policy/load.h"
#include "policy/model.h"

namespace weir::policy {
namespace {

std::vector<NameTrial> trials_of(const std::string& domain,
                                 std::optional<std::string> prefix = "") {
  auto loaded = load_text(domain, "d.yaml");
  EXPECT_TRUE(loaded.model);
  Model model = *loaded.model;
  model.rls.envoyproxy_prefix = std::move(prefix);
  return name_trials(model);
}

constexpr const char* kThreeAnHour = "rate_limit: {unit: hour, requests_per_unit: 3}";

// As counters are named, so that whatever rights these need are needed for it; and of 1970, so that
// no counter ever has its name.
TEST(NameTrial, IsNamedAsACounterOfEachFirstKey) {
  const std::string domain = std::string(R"(
domain: d
descriptors:
  - key: files
    value: files/*
    share_threshold: true
    descriptors:
      - key: user
        )") + kThreeAnHour + R"(
  - key: user
    )" + kThreeAnHour + R"(
  - key: user
    value: ada
    )" + kThreeAnHour + R"(
  - key: free
    rate_limit: {unlimited: true}
)";
  const std::vector<NameTrial> wanted = {{"old:d_files_files/*_user_weir-self-test_0", "old:d_"},
                                         {"old:d_user_weir-self-test_0", "old:d_"}};
  EXPECT_EQ(trials_of(domain, "old:"), wanted);
  EXPECT_TRUE(trials_of(domain, std::nullopt).empty()) << "its counters have Weir's own names";
}

TEST(NameTrial, IsMadeForNoMoreThanAFewKeys) {
  std::string domain = "domain: d\ndescriptors:\n";
  for (int i = 0; i < 100; ++i)
    domain += "  - key: k" + std::to_string(i) + "\n    " + kThreeAnHour + "\n";
  EXPECT_EQ(trials_of(domain).size(), kMostNameTrials);
}

}  // namespace
}  // namespace weir::policy
