#include "guard/bound_policy.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "guard/compose.h"
#include "guard/descriptor_values.h"
#include "guard/fleet_hasher.h"
#include "guard/plan.h"

namespace weir::guard {
namespace {

using std::chrono::seconds;

constexpr std::string_view kRoutes = R"(
store: {url: "memory:"}
inputs: [user]
routes:
  search:
    limits:
      - {requests: 10, per: hour, by: [user], override: {few: 2, many: 99}}
      - {requests: 50, per: day, by: [ip]}
    protects: nothing
  login:
    limits: [{requests: 5, per: hour, by: [ip]}]
    protects: nothing
)";

constexpr std::string_view kDomain = R"(
domain: shop
descriptors:
  - key: path
    value: cart
    rate_limit: {unit: hour, requests_per_unit: 10}
  - key: path
    value: pay
    rate_limit: {unit: hour, requests_per_unit: 20}
)";

std::string changed(std::string_view text, std::string_view what, std::string_view to) {
  std::string out(text);
  EXPECT_NE(out.find(what), out.npos) << what;
  out.replace(out.find(what), what.size(), to);
  return out;
}

// Policies, loaded one after the other a second apart.
class BoundPolicyTest : public ::testing::Test {
 protected:
  void load(std::string_view text) {
    auto policy = Policy::parse(std::string(text));
    ASSERT_TRUE(policy) << policy.error().message;
    ++loads_;
    auto next = std::make_unique<BoundPolicy>(*std::move(policy), loads_, names_, metrics_,
                                              ceilings_, Instant{seconds(loads_)}, current_.get());
    current_ = std::move(next);
  }
  // Which load its numbers are of.
  std::int64_t load_of(std::string_view route) const {
    return current_->find(route)->loaded_at.time_since_epoch() / seconds(1);
  }
  std::int64_t load_of_domain() const {
    return current_->domains().find("shop")->loaded_at.time_since_epoch() / seconds(1);
  }

  NamePool names_;
  render::Metrics metrics_;
  Ceilings ceilings_;
  std::unique_ptr<BoundPolicy> current_;
  std::uint64_t loads_ = 0;
};

TEST_F(BoundPolicyTest, AReloadOfTheSameNumbersIsNoLaterLoad) {
  load(kRoutes);
  load(kRoutes);
  EXPECT_EQ(load_of("search"), 1);
  load(changed(kRoutes, "requests: 5,", "requests: 6,"));
  EXPECT_EQ(load_of("search"), 1) << "only the other route's changed";
  EXPECT_EQ(load_of("login"), 3);
  load(changed(kRoutes, "requests: 5,", "requests: 6,"));
  EXPECT_EQ(load_of("login"), 3);
  load(kRoutes);
  EXPECT_EQ(load_of("search"), 1);
  EXPECT_EQ(load_of("login"), 5) << "back to what it was is a change too";
}

TEST_F(BoundPolicyTest, AnyNumberOfARouteMakesItLater) {
  for (const auto& [what, to] : {std::pair{"requests: 10,", "requests: 11,"},
                                 {"requests: 50,", "requests: 51,"},
                                 {"few: 2", "few: 3"},
                                 {"few: 2, many: 99", "few: 99, many: 2"}}) {
    load(kRoutes);
    const auto before = static_cast<std::int64_t>(loads_);
    load(kRoutes);
    EXPECT_LE(load_of("search"), before);
    load(changed(kRoutes, what, to));
    EXPECT_EQ(load_of("search"), before + 2) << to;
  }
}

TEST_F(BoundPolicyTest, ARuleThatWasAwayIsLoadedAnew) {
  load(kRoutes);
  load(changed(kRoutes, "  login:", "  logon:"));
  load(kRoutes);
  EXPECT_EQ(load_of("login"), 3);
  EXPECT_EQ(load_of("search"), 1);
}

// An ask has one time of loading for all its counters.
TEST_F(BoundPolicyTest, OfSeveralRulesTheLatestLoadCounts) {
  load(kRoutes);
  load(changed(kRoutes, "requests: 50,", "requests: 51,"));
  const BoundRoute& search = *current_->find("search");
  const store::Counter first{.identity = search.rules[0].rule->identity};
  const store::Counter second{.identity = search.rules[1].rule->identity};
  EXPECT_EQ(current_->loaded_at(first.identity), Instant{seconds(1)});
  EXPECT_EQ(current_->loaded_at(std::span(&first, 1)), Instant{seconds(1)});
  EXPECT_EQ(current_->loaded_at(std::array{first, second}), Instant{seconds(2)});
  const store::Counter gone{.identity = 1};
  EXPECT_EQ(current_->loaded_at(std::span(&gone, 1)), Instant{seconds(2)}) << "the policy's own";
}

TEST_F(BoundPolicyTest, ADomainIsLaterWhereAnyOfItsLimitsChanged) {
  load(kDomain);
  load(kDomain);
  EXPECT_EQ(load_of_domain(), 1);
  load(changed(kDomain, "requests_per_unit: 20", "requests_per_unit: 30"));
  EXPECT_EQ(load_of_domain(), 3);
  // The same two numbers, of each other's value.
  load(kDomain);
  load(changed(changed(changed(kDomain, "value: cart", "value: x"), "value: pay", "value: cart"),
               "value: x", "value: pay"));
  EXPECT_EQ(load_of_domain(), 5);
}

// A key's digest may be made of the value where the caller keeps it: it is that of the key's text
// all the same, or a refund and a reset would not find what a check charged.
TEST_F(BoundPolicyTest, APlanDigestsEveryKeyAsTheTextOfIt) {
  load(R"(
store: {url: "memory:"}
inputs: [user, team]
routes:
  all:
    limits:
      - {requests: 10, per: hour, by: [user]}
      - {requests: 20, per: hour, by: [ip]}
      - {requests: 30, per: hour, by: [user, team]}
      - {requests: 40, per: hour}
    protects: nothing
)");
  const ValueDigester digester = ValueDigester::from_text("weir");
  for (const CounterHasher& hasher :
       {CounterHasher::of_process(), CounterHasher::of_fleet({1, 2, 3})}) {
    for (std::size_t length = 0; length <= 140; ++length) {
      std::string text(length, '\0');  // no two bytes alike
      std::iota(text.begin(), text.end(), '\x21');
      const std::string_view address = length % 2 == 0 ? std::string_view(text) : "10.1.2.3";
      const std::array<Descriptor, 2> given{{{"user", text}, {"ip", address}}};
      // With values, and without them.
      for (const std::size_t count : {given.size(), std::size_t{0}}) {
        Plan plan;
        const DescriptorValues values{std::span(given).first(count)};
        ASSERT_EQ(plan.make(*current_->find("all"), *current_, values, 1, hasher, digester),
                  Plan::Outcome::ready);
        ASSERT_EQ(plan.count, 4U);
        for (std::size_t i = 0; i < plan.count; ++i)
          EXPECT_EQ(plan.counters[i].digest, hasher(plan.counters[i].key)) << length << " " << i;
        if (count == 0 || length > policy::KeyWriter::kMaxPlainValue) continue;
        std::string wanted;
        for (int shift = 0; shift < 64; shift += 8)
          wanted += static_cast<char>(plan.counters[0].identity >> shift);
        wanted += static_cast<char>(length);
        EXPECT_EQ(plan.counters[0].key, wanted + text) << length;
      }
    }
  }
}

// Workers of different versions are one fleet while it is updated: this never changes.
TEST(FleetHasher, DigestsAsEveryVersionOfAFleetDoes) {
  const std::string key(
      "\x01\x02\x03\x04\x05\x06\x07\x08\x05"
      "alice",
      14);
  const KeyDigest digest = fleet_hasher("weir")(key);
  EXPECT_EQ(digest.hi, 0x3906ed68ad5c4ae1U);
  EXPECT_EQ(digest.lo, 0x35275f04414f6ae3U);
  EXPECT_EQ(fleet_hasher("weir")(0x0807'0605'0403'0201, 5, "alice"), digest);
}

// What a report says before the store answers is made once a rule, not once a request.
TEST_F(BoundPolicyTest, AnOutlineHasTheNumbersOfTheValueThatARuleMakesAnExceptionFor) {
  load(kRoutes);
  const CounterHasher hasher = CounterHasher::of_process();
  const ValueDigester digester = ValueDigester::from_text("weir");
  for (const auto& [user, limit] : {std::pair{"few", 2U}, {"many", 99U}, {"else", 10U}}) {
    const Descriptor given{"user", user};
    Plan plan;
    ASSERT_EQ(plan.make(*current_->find("search"), *current_, DescriptorValues({&given, 1}), 1,
                        hasher, digester),
              Plan::Outcome::ready);
    Decision decision;
    outline(plan, decision);
    ASSERT_EQ(decision.rules().size(), 2U);
    const RuleReport& report = decision.rules()[0];
    const limit::Numbers& numbers = *plan.counters[0].numbers;
    EXPECT_EQ(report.limit, limit);
    EXPECT_EQ(report.burst, numbers.burst);
    EXPECT_EQ(report.charge.stamp, numbers.stamp);
    EXPECT_EQ(report.charge.identity, plan.counters[0].identity);
    EXPECT_EQ(report.rule, plan.counters[0].rule);
    EXPECT_EQ(decision.rules()[1].limit, 50U);
  }
}

}  // namespace
}  // namespace weir::guard
