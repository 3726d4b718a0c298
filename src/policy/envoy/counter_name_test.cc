#include "policy/envoy/counter_name.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policy/load.h"

namespace weir::policy {
namespace {

struct NamedEntry {
  std::string_view key;
  std::string_view value;
};

std::string name_of(std::string_view prefix, std::string_view domain,
                    const std::vector<NamedEntry>& entries,
                    const DescriptorLimit* limit = nullptr) {
  std::string out(counter_name_size(prefix, domain, entries, limit), '?');
  write_counter_name(prefix, domain, entries, limit, out.data());
  return out;
}

TEST(CounterName, IsTheDomainAndEveryEntryEachFollowedByAnUnderscore) {
  EXPECT_EQ(name_of("", "domain", {{"key", "value"}}), "domain_key_value_");
  EXPECT_EQ(name_of("", "d", {{"a", "1"}, {"b", "2"}}), "d_a_1_b_2_");
  EXPECT_EQ(name_of("prefix:", "d", {{"a", "1"}}), "prefix:d_a_1_");
  EXPECT_EQ(name_of("", "d", {{"a", ""}}), "d_a__") << "a value that is empty, or not there";
}

// Two descriptors may share one name there: it is kept, for it is one budget.
TEST(CounterName, EscapesNothing) {
  EXPECT_EQ(name_of("", "d", {{"a_b", "c"}}), name_of("", "d", {{"a", "b_c"}}));
  EXPECT_EQ(name_of("", "d", {{"k", "{x} y\n%"}}), "d_k_{x} y\n%_");
}

TEST(CounterName, HasThePatternWhereValuesShareACounter) {
  const auto loaded = load_text(R"(
domain: d
descriptors:
  - key: files
    value: files/*
    share_threshold: true
    descriptors:
      - key: user
        rate_limit: {unit: hour, requests_per_unit: 3}
)",
                                "d.yaml");
  ASSERT_TRUE(loaded.model);
  const Domain& domain = loaded.model->domains.front();
  const std::vector<NamedEntry> entries = {{"files", "files/a.txt"}, {"user", "ada"}};
  EXPECT_EQ(name_of("", "d", entries, domain.find(entries)), "d_files_files/*_user_ada_");
}

// What the other server cannot count is refused, and not counted in another way.
TEST(CounterName, RefusesWhatIsNoWindowThere) {
  const auto faults = [](const std::string& limit, const std::string& beside = "") {
    const auto loaded = load_text(
        "domain: d\n" + beside + "descriptors:\n  - key: k\n    rate_limit: " + limit + "\n",
        "d.yaml");
    EXPECT_TRUE(loaded.model) << limit;
    FaultList found("d.yaml");
    check_kept_by_envoyproxy(loaded.model->domains.front(), found);
    return text_of(found.sorted());
  };
  EXPECT_EQ(faults("{unit: minute, requests_per_unit: 5}"), "");
  EXPECT_EQ(faults("{unit: minute, requests_per_unit: 5, algorithm: fixed_window}"), "");
  EXPECT_EQ(faults("{unlimited: true}"), "");
  for (const char* algorithm : {"gcra", "sliding_window", "sliding_log"}) {
    EXPECT_NE(
        faults("{unit: minute, requests_per_unit: 5, algorithm: " + std::string(algorithm) + "}")
            .find("is no fixed window"),
        std::string::npos)
        << algorithm;
  }
  EXPECT_NE(faults("{unit: month, requests_per_unit: 5}", "calendar: true\n")
                .find("follows the calendar"),
            std::string::npos);
}

}  // namespace
}  // namespace weir::policy
