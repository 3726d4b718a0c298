#include "policy/envoy/domain.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "policy/envoy/read_domain.h"

namespace weir::policy {
namespace {

struct Entry {
  std::string_view key;
  std::string_view value;
};

Domain read(const std::string& descriptors, const std::string& root = "") {
  FaultList faults("test.yaml");
  Domain domain;
  read_domain("domain: d\n" + root + "descriptors:\n" + descriptors, faults, domain);
  for (const Fault& fault : faults.sorted())
    if (!fault.warning) ADD_FAILURE() << fault.text();
  return domain;
}

// The path of the limit that a request meets.
std::string met(const Domain& domain, const std::vector<Entry>& entries) {
  const DescriptorLimit* limit = domain.find(entries);
  return limit == nullptr ? "none" : limit->path;
}

const Rule& rule_of(const Domain& domain, const DescriptorLimit& limit) {
  return domain.scopes[limit.scope].route.rules[*limit.rule];
}

const Rule& rule_met(const Domain& domain, const std::vector<Entry>& entries) {
  return rule_of(domain, *domain.find(entries));
}

constexpr const char* kLimit = "rate_limit: {unit: minute, requests_per_unit: 5}";

std::string limited(const std::string& key_and_value) {
  return "  - {" + key_and_value + ", " + kLimit + "}\n";
}

TEST(Domain, PrefersTheValueThenTheFirstWildcardThenAnyValue) {
  const Domain domain = read(limited("key: k") + limited("key: k, value: 'a*'") +
                             limited("key: k, value: 'ab*'") + limited("key: k, value: abc"));
  EXPECT_EQ(met(domain, {{"k", "abc"}}), "k_abc");
  EXPECT_EQ(met(domain, {{"k", "abd"}}), "k_a*");
  EXPECT_EQ(met(domain, {{"k", "x"}}), "k");
  EXPECT_EQ(met(domain, {{"k", ""}}), "k");
  EXPECT_EQ(met(domain, {{"x", "abc"}}), "none");
}

TEST(Domain, MeetsALimitAtTheLastEntryAlone) {
  const Domain domain = read("  - key: a\n    " + std::string(kLimit) +
                             "\n    descriptors:\n      - key: b\n        " + kLimit +
                             "\n  - key: c\n    descriptors:\n      - {key: d, " + kLimit + "}\n");
  EXPECT_EQ(met(domain, {{"a", "1"}}), "a");
  EXPECT_EQ(met(domain, {{"a", "1"}, {"b", "2"}}), "a.b");
  EXPECT_EQ(met(domain, {{"a", "1"}, {"x", "2"}}), "none");
  EXPECT_EQ(met(domain, {{"a", "1"}, {"b", "2"}, {"c", "3"}}), "none");
  EXPECT_EQ(met(domain, {{"c", "1"}}), "none");
  EXPECT_EQ(met(domain, {{"b", "2"}, {"a", "1"}}), "none");
  EXPECT_EQ(met(domain, {}), "none");
}

TEST(Domain, DoesNotGoBackFromAValueToItsKey) {
  const Domain domain = read("  - key: a\n    descriptors:\n      - {key: b, " +
                             std::string(kLimit) + "}\n  - {key: a, value: free}\n");
  EXPECT_EQ(met(domain, {{"a", "x"}, {"b", "1"}}), "a.b");
  EXPECT_EQ(met(domain, {{"a", "free"}, {"b", "1"}}), "none");
}

// Joined strings as keys would merge these.
TEST(Domain, KeepsKeysAndValuesApartWhateverTheyHold) {
  const Domain day = read(limited("key: type_example"));
  EXPECT_EQ(met(day, {{"type", "example"}}), "none");
  EXPECT_EQ(met(day, {{"type_example", "x"}}), "type_example");

  const Domain domain = read(limited("key: a") + limited("key: a_b") + limited("key: a, value: a") +
                             "  - {key: x, descriptors: [{key: c, " + kLimit + "}]}\n");
  EXPECT_EQ(met(domain, {{"a", "b_c_d"}}), "a");
  EXPECT_EQ(met(domain, {{"a_b", "c_d"}}), "a_b");
  EXPECT_EQ(met(domain, {{"a", "a"}}), "a_a");
  EXPECT_NE(rule_met(domain, {{"a", "b_c_d"}}).identity,
            rule_met(domain, {{"a_b", "c_d"}}).identity);
  EXPECT_NE(rule_met(domain, {{"x", "b"}, {"c", "d"}}).identity,
            rule_met(domain, {{"a", "b"}}).identity);
}

TEST(Domain, CountsEachValueOfAKeyByItself) {
  const Domain domain = read(limited("key: cust"));
  const Rule& rule = rule_met(domain, {{"cust", "A1"}});
  ASSERT_EQ(rule.by.size(), 1u);
  EXPECT_EQ(rule.by[0].name, "cust");
  EXPECT_EQ(rule.identity_text, "domain 1:d by 4:cust per 1m fixed_window");
}

TEST(Domain, CountsSharedWildcardsTogether) {
  const Domain domain = read(limited("key: f, value: 'a/*', share_threshold: true") +
                             limited("key: f, value: 'b/*', share_threshold: true") +
                             limited("key: f, value: 'c/*'"));
  const DescriptorLimit* shared = domain.find(std::vector<Entry>{{"f", "a/1"}});
  EXPECT_TRUE(shared->levels[0].shares);
  EXPECT_TRUE(rule_of(domain, *shared).by.empty());
  EXPECT_NE(rule_met(domain, {{"f", "a/1"}}).identity, rule_met(domain, {{"f", "b/1"}}).identity);
  EXPECT_EQ(rule_met(domain, {{"f", "c/1"}}).by.size(), 1u);
}

TEST(Domain, KeepsTheIdentityWhenOnlyNumbersChange) {
  const auto identity = [](const std::string& limit) {
    const Domain domain = read("  - {key: a, rate_limit: {" + limit + "}}\n");
    return domain.scopes[0].route.rules[0].identity_text;
  };
  EXPECT_EQ(identity("unit: minute, requests_per_unit: 5"),
            identity("unit: minute, requests_per_unit: 9, name: n"));
  EXPECT_NE(identity("unit: minute, requests_per_unit: 5"),
            identity("unit: hour, requests_per_unit: 5"));
  EXPECT_EQ(identity("unit: second, requests_per_unit: 5, unit_multiplier: 60"),
            identity("unit: minute, requests_per_unit: 5"));
}

TEST(Domain, DividesTheEpochUnlessTheCalendarIsAskedFor) {
  const auto numbers = [](const std::string& unit, const std::string& root) {
    const Domain domain =
        read("  - {key: a, rate_limit: {unit: " + unit + ", requests_per_unit: 5}}\n", root);
    return domain.scopes[0].route.rules[0].numbers;
  };
  EXPECT_EQ(numbers("WEEK", "").calendar, limit::Calendar::none);
  EXPECT_EQ(numbers("week", "").period_ns, 604'800'000'000'000);
  EXPECT_EQ(numbers("month", "").period_ns, 30 * 86'400'000'000'000);
  EXPECT_EQ(numbers("year", "").period_ns, 365 * 86'400'000'000'000);
  EXPECT_EQ(numbers("month", "calendar: true\n").calendar, limit::Calendar::month);
  EXPECT_EQ(numbers("minute", "").algorithm, Algorithm::fixed_window);
  EXPECT_EQ(numbers("minute", "protects: security\n").algorithm, Algorithm::fixed_window);
}

TEST(Domain, SaysWhatADescriptorSays) {
  const Domain domain = read(R"(
  - key: a
    value_to_metric: true
    descriptors:
      - key: b
        shadow_mode: true
        quota_mode: yes
        detailed_metric: true
        metadata: {name: "1", list: [1, 1.5, true, null, text], nested: {k: 1e3}}
        rate_limit:
          unit: Hour
          unit_multiplier: 3
          requests_per_unit: 7
          name: mine
          replaces: [{name: other}]
  - key: free
    rate_limit: {unlimited: true, name: other}
)");
  const DescriptorLimit& limit = *domain.find(std::vector<Entry>{{"a", "1"}, {"b", "2"}});
  EXPECT_TRUE(limit.shadow);
  EXPECT_TRUE(limit.quota);
  EXPECT_TRUE(limit.detailed_metric);
  EXPECT_TRUE(limit.levels[0].value_to_metric);
  EXPECT_FALSE(limit.levels[1].value_to_metric);
  EXPECT_EQ(limit.name, "mine");
  EXPECT_EQ(limit.replaces, std::vector<std::string>{"other"});
  EXPECT_EQ(limit.requests_per_unit, 7u);
  EXPECT_EQ(limit.unit, PeriodUnit::hour);
  EXPECT_EQ(limit.unit_multiplier, 3u);
  EXPECT_EQ(limit.metadata_json,
            R"({"name":"1","list":[1,1.5,true,null,"text"],"nested":{"k":1000.0}})");
  EXPECT_TRUE(rule_of(domain, limit).shadow);
  EXPECT_EQ(rule_of(domain, limit).numbers.period_ns, 3 * 3'600'000'000'000);
  EXPECT_TRUE(domain.find(std::vector<Entry>{{"free", "x"}})->unlimited());
}

TEST(Domain, HoldsAFailurePolicyForEverythingBelow) {
  const Domain domain = read(R"(
  - key: a
    rate_limit: {unit: minute, requests_per_unit: 5}
  - key: login
    protects: security
    descriptors:
      - key: ip
        rate_limit: {unit: minute, requests_per_unit: 5}
      - key: bot
        when_store_fails: open
        ceiling: 5 per second
        rate_limit: {unit: minute, requests_per_unit: 5}
)",
                             "protects: capacity\nceiling: 100 per second\n");
  const auto scope = [&](const std::vector<Entry>& entries) -> const DomainScope& {
    return domain.scopes[domain.find(entries)->scope];
  };
  EXPECT_EQ(scope({{"a", "1"}}).route.when_store_fails, FailurePolicy::bounded);
  EXPECT_EQ(scope({{"login", "1"}, {"ip", "2"}}).route.when_store_fails, FailurePolicy::closed);
  EXPECT_EQ(scope({{"login", "1"}, {"ip", "2"}}).route.protects, Protects::security);
  EXPECT_EQ(scope({{"login", "1"}, {"ip", "2"}}).ceiling_scope, 0u);
  const DomainScope& bot = scope({{"login", "1"}, {"bot", "2"}});
  EXPECT_EQ(bot.route.when_store_fails, FailurePolicy::open);
  EXPECT_FALSE(bot.route.protects);
  EXPECT_EQ(bot.route.ceiling->text, "5 per second");
  EXPECT_NE(bot.ceiling_scope, 0u);
  EXPECT_EQ(bot.path, "login.bot");
  for (const DomainScope& each : domain.scopes) EXPECT_TRUE(each.decided);
}

TEST(Domain, GivesOverridesIdentitiesOfTheirOwn) {
  const Domain domain = read(limited("key: a"));
  EXPECT_NE(domain.override_identity(PeriodUnit::minute),
            domain.override_identity(PeriodUnit::hour));
  EXPECT_NE(domain.override_identity(PeriodUnit::minute), rule_met(domain, {{"a", "1"}}).identity);
}

TEST(Domain, RefusesDescriptorsNestedTooDeep) {
  std::string text = "domain: d\ndescriptors: ";
  for (int i = 0; i < 13; ++i) text += "[{key: k, descriptors: ";
  text += "[]";
  for (int i = 0; i < 13; ++i) text += "}]";
  FaultList faults("deep.yaml");
  Domain domain;
  read_domain(text, faults, domain);
  ASSERT_TRUE(faults.failed());
  EXPECT_NE(faults.sorted()[0].problem.find("nested too deep"), std::string::npos);
}

// Proxies write the name into a header line as it is.
TEST(Domain, ANameThatWouldBreakAHeaderLineIsRefused) {
  const auto faults_of = [](const std::string& name) {
    FaultList faults("test.yaml");
    Domain domain;
    read_domain(
        "domain: d\ndescriptors:\n  - key: k\n    rate_limit: {unit: minute, "
        "requests_per_unit: 5, name: " +
            name + "}\n",
        faults, domain);
    return faults.sorted();
  };
  for (const char* name : {"\"a\\r\\nSet-Cookie: b\"", "\"a\\nb\"", "\"\\x7f\"", "\"\\0\""}) {
    const auto faults = faults_of(name);
    ASSERT_EQ(faults.size(), 1u) << name;
    EXPECT_FALSE(faults[0].warning);
    EXPECT_NE(faults[0].text().find("holds a control character"), std::string::npos)
        << faults[0].text();
  }
  for (const char* name : {"caf\xc3\xa9", "'a\"b'", "'a\\b'"}) {
    const auto faults = faults_of(name);
    ASSERT_EQ(faults.size(), 1u) << name;
    EXPECT_TRUE(faults[0].warning) << name;
  }
  EXPECT_TRUE(faults_of("plain name; w=1").empty());
}

}  // namespace
}  // namespace weir::policy
