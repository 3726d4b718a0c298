#include "guard/domain_limiter.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "guard/impl.h"
#include "testing/manual_clock.h"
#include "testing/rate_limit_listeners.h"

namespace weir::guard {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using weir::testing::NobodyListens;

constexpr std::uint64_t kUnlimited = 0xffff'ffff;

struct Asked {
  std::vector<DescriptorEntry> entries;
  std::optional<std::uint64_t> hits = std::nullopt;
  std::optional<LimitOverride> limit = std::nullopt;
};

// One policy, and what it is asked.
class World {
 public:
  World(const std::string& text, weir::testing::ManualClock& clock)
      : World(Policy::parse(text).value(), {.clock = &clock}) {}
  World(Policy policy, GuardOptions options)
      : guard_(Guard::open(std::move(policy), std::move(options)).value()), limiter_(guard_) {}

  RateLimitAnswer ask(const std::vector<Asked>& descriptors, std::uint64_t hits = 1,
                      std::string_view domain = "d") {
    std::vector<AskedDescriptor> asked;
    for (const Asked& each : descriptors) asked.push_back({each.entries, each.limit, each.hits});
    RateLimitAnswer answer;
    NobodyListens nobody;
    EXPECT_TRUE(
        limiter_.decide({.domain = domain, .descriptors = asked, .hits = hits}, answer, nobody, 0));
    EXPECT_EQ(answer.statuses.size(), descriptors.size());
    return answer;
  }
  RateLimitAnswer ask(std::vector<DescriptorEntry> entries, std::uint64_t hits = 1) {
    return ask(std::vector<Asked>{{std::move(entries)}}, hits);
  }
  bool passes(std::vector<DescriptorEntry> entries) {
    return ask(std::move(entries)).decision.allowed();
  }
  Guard& guard() { return guard_; }

 private:
  Guard guard_;
  DomainLimiter limiter_;
};

class DomainLimiterTest : public ::testing::Test {
 protected:
  void set_wall(Instant now) { clock.step_wall(now - clock.now()); }

  weir::testing::ManualClock clock;
};

constexpr const char* kBasic = R"(
domain: d
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 2, name: per_user}
  - key: user
    value: vip
    rate_limit: {unit: hour, requests_per_unit: 5}
  - key: path
    value: /login
    descriptors:
      - key: ip
        rate_limit: {unit: day, requests_per_unit: 1}
  - key: blocked
    rate_limit: {unit: week, requests_per_unit: 0}
  - key: free
    rate_limit: {unlimited: true}
)";

TEST_F(DomainLimiterTest, CountsEachValueOfABareKeyByItself) {
  World world(kBasic, clock);
  EXPECT_TRUE(world.passes({{"user", "a"}}));
  EXPECT_TRUE(world.passes({{"user", "a"}}));
  EXPECT_FALSE(world.passes({{"user", "a"}}));
  EXPECT_TRUE(world.passes({{"user", "b"}}));
}

TEST_F(DomainLimiterTest, TellsLimitRemainingAndReset) {
  World world(kBasic, clock);
  set_wall(Instant(hours(480'000)) + seconds(13));
  const auto first = world.ask({{"user", "a"}}).statuses[0];
  EXPECT_FALSE(first.over);
  ASSERT_TRUE(first.limit);
  EXPECT_EQ(first.limit->requests_per_unit, 2U);
  EXPECT_EQ(first.limit->unit, LimitUnit::minute);
  EXPECT_EQ(first.limit->name, "per_user");
  EXPECT_EQ(first.remaining, 1U);
  EXPECT_EQ(first.until_reset, seconds(47));
  (void)world.ask({{"user", "a"}});
  const auto over = world.ask({{"user", "a"}});
  EXPECT_EQ(over.decision.verdict, Verdict::limited);
  EXPECT_EQ(over.decision.retry_after, seconds(47));
  EXPECT_TRUE(over.statuses[0].over);
  EXPECT_EQ(over.statuses[0].remaining, 0U);
  EXPECT_EQ(over.statuses[0].until_reset, seconds(47));
  clock.advance(seconds(47));
  EXPECT_TRUE(world.passes({{"user", "a"}}));
}

TEST_F(DomainLimiterTest, AWindowIsLaidFromTheEpoch) {
  World world(kBasic, clock);
  // Weeks of that service begin on Thursdays, as 1970 did.
  set_wall(Instant(hours(24 * 7 * 2800)) + hours(1));
  EXPECT_EQ(world.ask({{"blocked", "x"}}).statuses[0].until_reset, hours(24 * 7 - 1));
}

TEST_F(DomainLimiterTest, AnExactValueComesBeforeABareKey) {
  World world(kBasic, clock);
  EXPECT_EQ(world.ask({{"user", "vip"}}).statuses[0].limit->requests_per_unit, 5U);
}

TEST_F(DomainLimiterTest, ALimitHoldsOnlyAtTheLastEntry) {
  World world(kBasic, clock);
  const auto deeper = world.ask({{"path", "/login"}, {"ip", "1"}});
  EXPECT_TRUE(deeper.statuses[0].limit);
  for (const auto& entries :
       std::vector<std::vector<DescriptorEntry>>{{{"path", "/login"}},
                                                 {{"path", "/other"}, {"ip", "1"}},
                                                 {{"path", "/login"}, {"ip", "1"}, {"more", "1"}},
                                                 {{"ip", "1"}},
                                                 {}}) {
    const auto answer = world.ask(entries);
    EXPECT_TRUE(answer.decision.allowed());
    EXPECT_FALSE(answer.statuses[0].limit);
    EXPECT_EQ(answer.statuses[0].remaining, 0U);
    EXPECT_FALSE(answer.statuses[0].until_reset);
  }
  EXPECT_FALSE(world.passes({{"path", "/login"}, {"ip", "1"}}));
}

TEST_F(DomainLimiterTest, ALimitOfZeroBlocksAndAnUnlimitedOneNeverCounts) {
  World world(kBasic, clock);
  const auto blocked = world.ask({{"blocked", "x"}});
  EXPECT_EQ(blocked.decision.reason, Reason::blocked);
  EXPECT_FALSE(blocked.decision.retry_after);
  EXPECT_TRUE(blocked.statuses[0].over);
  const auto free = world.ask({{"free", "x"}}, 1'000'000);
  EXPECT_TRUE(free.decision.allowed());
  EXPECT_FALSE(free.statuses[0].limit);
  EXPECT_EQ(free.statuses[0].remaining, kUnlimited);
}

TEST_F(DomainLimiterTest, KeysAndValuesAreNeverJoined) {
  World world(R"(
domain: d
descriptors:
  - key: a
    rate_limit: {unit: day, requests_per_unit: 1}
    descriptors:
      - key: c
        rate_limit: {unit: day, requests_per_unit: 1}
  - key: a_b
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: type_example
    rate_limit: {unit: day, requests_per_unit: 1}
)",
              clock);
  // Five counters of one unit each.
  for (const auto& entries : std::vector<std::vector<DescriptorEntry>>{{{"a", "b_c_d"}},
                                                                       {{"a_b", "c_d"}},
                                                                       {{"a", "b"}, {"c", "d"}},
                                                                       {{"a", "a"}},
                                                                       {{"a", ""}}}) {
    EXPECT_TRUE(world.passes(entries));
    EXPECT_FALSE(world.passes(entries));
  }
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(world.passes({{"type", "example"}}));
  EXPECT_TRUE(world.passes({{"type_example", "x"}}));
  EXPECT_FALSE(world.passes({{"type_example", "x"}}));
}

TEST_F(DomainLimiterTest, ADeniedRequestChargesNoneOfItsDescriptors) {
  World world(R"(
domain: d
descriptors:
  - key: broad
    rate_limit: {unit: day, requests_per_unit: 10}
  - key: narrow
    rate_limit: {unit: day, requests_per_unit: 3}
)",
              clock);
  const std::vector<Asked> both = {{{{"broad", "x"}}}, {{{"narrow", "x"}}}};
  int passed = 0;
  for (int i = 0; i < 5; ++i) passed += world.ask(both).decision.allowed() ? 1 : 0;
  EXPECT_EQ(passed, 3);
  const auto denied = world.ask(both);
  EXPECT_FALSE(denied.statuses[0].over);
  EXPECT_EQ(denied.statuses[0].remaining, 7U);
  EXPECT_TRUE(denied.statuses[1].over);
  int alone = 0;
  for (int i = 0; i < 10; ++i) alone += world.passes({{"broad", "x"}}) ? 1 : 0;
  EXPECT_EQ(alone, 7);
}

TEST_F(DomainLimiterTest, ManyThreadsAdmitExactlyTheLimit) {
  World world(R"(
domain: d
descriptors:
  - key: broad
    rate_limit: {unit: day, requests_per_unit: 1000}
  - key: narrow
    rate_limit: {unit: day, requests_per_unit: 30}
)",
              clock);
  std::atomic<int> passed = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 20; ++j) {
        passed += world.ask({{{{"broad", "x"}}}, {{{"narrow", "x"}}}}).decision.allowed() ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(passed, 30);
  EXPECT_EQ(world.ask({{{{"broad", "x"}}, 0}}).statuses[0].remaining, 970U);
}

// A domain's file beside a native one that says how domains are to be held.
class DomainFiles {
 public:
  DomainFiles(const std::string& native, const std::string& domain)
      : folder_(std::filesystem::path(::testing::TempDir()) /
                ("weir_domain_" + std::to_string(::getpid()) +
                 ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "weir.yaml") << native;
    std::ofstream(folder_ / "domain.yaml") << domain;
  }
  DomainFiles(const DomainFiles&) = delete;
  DomainFiles& operator=(const DomainFiles&) = delete;
  ~DomainFiles() { std::filesystem::remove_all(folder_); }
  Policy policy() const { return Policy::load(folder_.string()).value(); }

 private:
  std::filesystem::path folder_;
};

constexpr const char* kNative = R"(
inputs: [user]
routes:
  native:
    limits: [{requests: 1, per: day, by: [user], algorithm: fixed_window}]
    protects: capacity
    ceiling: 10 per second
)";

TEST_F(DomainLimiterTest, CountDeniedChargesThemAllTheSame) {
  const DomainFiles files(std::string(kNative) + "rls: {count_denied: true}\n", R"(
domain: d
descriptors:
  - key: broad
    rate_limit: {unit: day, requests_per_unit: 10}
  - key: narrow
    rate_limit: {unit: day, requests_per_unit: 3}
)");
  World world(files.policy(), {.clock = &clock});
  const std::vector<Asked> both = {{{{"broad", "x"}}}, {{{"narrow", "x"}}}};
  for (int i = 0; i < 4; ++i) (void)world.ask(both);
  const auto denied = world.ask(both);
  EXPECT_TRUE(denied.statuses[1].over);
  EXPECT_EQ(denied.statuses[0].remaining, 5U);
  for (int i = 0; i < 6; ++i) (void)world.ask(both);
  EXPECT_FALSE(world.passes({{"broad", "x"}}));
}

TEST_F(DomainLimiterTest, NativeRoutesAnswerBesideIt) {
  const DomainFiles files(kNative, kBasic);
  World world(files.policy(), {.clock = &clock});
  EXPECT_TRUE(world.ask({{{{"user", "a"}}}}, 1, "native").decision.allowed());
  EXPECT_FALSE(world.ask({{{{"user", "a"}}}}, 1, "native").decision.allowed());
  EXPECT_TRUE(world.passes({{"user", "a"}}));
}

TEST_F(DomainLimiterTest, HeadersOfThePolicyHoldWhereTheyAreSaid) {
  const DomainFiles files(std::string(kNative) + "headers: [delta]\n", kBasic);
  World world(files.policy(), {.clock = &clock});
  EXPECT_EQ(world.ask({{"user", "a"}}).decision.profiles, kHeadersDelta);
}

// Cannot decide, whatever it is asked.
class SilentStore final : public Store {
 public:
  bool decide(std::span<const CounterRequest>, Instant,
              std::span<CounterAnswer>) noexcept override {
    return false;
  }
};

TEST_F(DomainLimiterTest, WithoutItsStoreEachPartOfADomainDoesAsItSays) {
  const std::string domain = R"(
domain: d
protects: security
descriptors:
  - key: closed
    rate_limit: {unit: day, requests_per_unit: 10}
  - key: open
    when_store_fails: open
    rate_limit: {unit: day, requests_per_unit: 10}
  - key: watched
    shadow_mode: true
    rate_limit: {unit: day, requests_per_unit: 10}
)";
  const DomainFiles files(std::string(kNative) + "rls: {rls_refusal: unavailable}\n", domain);
  World world(files.policy(), {.clock = &clock, .store = std::make_unique<SilentStore>()});
  const auto open = world.ask({{"open", "x"}});
  EXPECT_TRUE(open.decision.allowed());
  std::string metrics;
  world.guard().impl().metrics().write(metrics);
  EXPECT_NE(metrics.find("\nweir_unenforced_total{route=\"d\"} 1\n"), std::string::npos) << metrics;
  EXPECT_EQ(open.decision.rung, Rung::policy);
  EXPECT_FALSE(open.statuses[0].over);
  EXPECT_FALSE(open.statuses[0].limit);
  const auto closed = world.ask({{{{"open", "x"}}}, {{{"closed", "x"}}}, {{{"nothing", "x"}}}});
  EXPECT_EQ(closed.decision.verdict, Verdict::refused);
  EXPECT_EQ(closed.decision.reason, Reason::store_unavailable);
  EXPECT_TRUE(closed.refuse_as_error);
  EXPECT_TRUE(closed.statuses[1].over);
  EXPECT_FALSE(closed.statuses[1].limit);
  EXPECT_FALSE(closed.statuses[2].over);
  EXPECT_TRUE(world.passes({{"nothing", "x"}}));
  // A limit in shadow refuses nobody, alone or beside one that would not.
  EXPECT_TRUE(world.passes({{"watched", "x"}}));
  EXPECT_TRUE(world.ask({{{{"open", "x"}}}, {{{"watched", "x"}}}}).decision.allowed());
  EXPECT_FALSE(world.ask({{{{"closed", "x"}}}, {{{"watched", "x"}}}}).decision.allowed());
}

TEST_F(DomainLimiterTest, AStatusForEachDescriptorInOrder) {
  World world(kBasic, clock);
  const auto answer = world.ask({{{{"user", "a"}}}, {{{"nothing", "a"}}}, {{{"user", "vip"}}}});
  EXPECT_EQ(answer.statuses[0].limit->requests_per_unit, 2U);
  EXPECT_FALSE(answer.statuses[1].limit);
  EXPECT_EQ(answer.statuses[2].limit->requests_per_unit, 5U);
}

TEST_F(DomainLimiterTest, EqualDescriptorsAreEachCharged) {
  World world(kBasic, clock);
  const std::vector<Asked> twice = {{{{"user", "vip"}}}, {{{"user", "vip"}}}};
  EXPECT_EQ(world.ask(twice).statuses[1].remaining, 3U);
  EXPECT_EQ(world.ask(twice).statuses[1].remaining, 1U);
  EXPECT_FALSE(world.ask(twice).decision.allowed());
  EXPECT_TRUE(world.passes({{"user", "vip"}}));
}

TEST_F(DomainLimiterTest, HitsZeroIsAProbeOfADescriptor) {
  World world(kBasic, clock);
  const std::vector<Asked> probe = {{{{"user", "a"}}, 0}};
  for (int i = 0; i < 100; ++i) EXPECT_EQ(world.ask(probe).statuses[0].remaining, 2U);
  EXPECT_EQ(world.ask({{"user", "a"}}, 2).statuses[0].remaining, 0U);
  EXPECT_TRUE(world.ask(probe).statuses[0].over);
}

TEST_F(DomainLimiterTest, ALateReportDrainsToTheLimit) {
  World world(kBasic, clock);
  // Four of five are left; a report of eight takes them, and the next request is denied.
  EXPECT_TRUE(world.passes({{"user", "vip"}}));
  const auto report = world.ask({{{{"user", "vip"}}, 8}});
  EXPECT_TRUE(report.statuses[0].over);
  EXPECT_EQ(report.statuses[0].remaining, 0U);
  EXPECT_FALSE(world.passes({{"user", "vip"}}));
}

TEST_F(DomainLimiterTest, ARequestsOwnHitsThatDoNotFitBurnNothing) {
  World world(kBasic, clock);
  EXPECT_TRUE(world.ask({{"user", "vip"}}, 3).decision.allowed());
  EXPECT_FALSE(world.ask({{"user", "vip"}}, 3).decision.allowed());
  EXPECT_TRUE(world.ask({{"user", "vip"}}, 2).decision.allowed());
}

TEST_F(DomainLimiterTest, HitsBeyondTheLimitNeverFit) {
  World world(kBasic, clock);
  const auto answer = world.ask({{"user", "a"}}, ~0ULL);
  EXPECT_EQ(answer.decision.reason, Reason::cost_exceeds_burst);
  EXPECT_FALSE(answer.decision.retry_after);
  EXPECT_TRUE(world.passes({{"user", "a"}}));
}

TEST_F(DomainLimiterTest, AShadowLimitIsToldAndNeverDenies) {
  World world(R"(
domain: d
descriptors:
  - key: k
    rate_limit: {unit: day, requests_per_unit: 1}
    shadow_mode: true
)",
              clock);
  EXPECT_TRUE(world.passes({{"k", "v"}}));
  const auto over = world.ask({{"k", "v"}});
  EXPECT_TRUE(over.decision.allowed());
  EXPECT_FALSE(over.statuses[0].over);
  EXPECT_EQ(over.statuses[0].limit->requests_per_unit, 1U);
  EXPECT_EQ(over.statuses[0].remaining, 0U);
  std::string metrics;
  world.guard().impl().metrics().write(metrics);
  EXPECT_NE(metrics.find("weir_shadow_total{route=\"d\",verdict=\"limited\"} 1\n"),
            std::string::npos);
}

TEST_F(DomainLimiterTest, QuotasDenyOnlyTogether) {
  World world(R"(
domain: d
descriptors:
  - key: a
    quota_mode: true
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: b
    quota_mode: true
    rate_limit: {unit: day, requests_per_unit: 2}
  - key: plain
    rate_limit: {unit: day, requests_per_unit: 10}
)",
              clock);
  const std::vector<Asked> all = {{{{"a", ""}}}, {{{"b", ""}}}, {{{"plain", ""}}}};
  EXPECT_TRUE(world.ask(all).decision.allowed());
  const auto one_over = world.ask(all);
  EXPECT_TRUE(one_over.decision.allowed());
  EXPECT_TRUE(one_over.statuses[0].over);
  EXPECT_FALSE(one_over.statuses[1].over);
  const auto both_over = world.ask(all);
  EXPECT_EQ(both_over.decision.verdict, Verdict::limited);
  EXPECT_TRUE(both_over.statuses[1].over);
  EXPECT_FALSE(both_over.statuses[2].over);
  // What was charged beside them was given back.
  EXPECT_EQ(world.ask({{{{"plain", ""}}, 0}}).statuses[0].remaining, 8U);
}

TEST_F(DomainLimiterTest, ALimitReplacesOthersByName) {
  World world(R"(
domain: d
descriptors:
  - key: broad
    rate_limit: {unit: day, requests_per_unit: 1, name: broad}
  - key: narrow
    rate_limit: {unit: day, requests_per_unit: 3, name: narrow, replaces: [{name: broad}]}
)",
              clock);
  const std::vector<Asked> both = {{{{"broad", "x"}}}, {{{"narrow", "x"}}}};
  for (int i = 0; i < 3; ++i) {
    const auto answer = world.ask(both);
    EXPECT_TRUE(answer.decision.allowed());
    EXPECT_FALSE(answer.statuses[0].limit);
  }
  EXPECT_FALSE(world.ask(both).decision.allowed());
  EXPECT_TRUE(world.passes({{"broad", "x"}}));
  EXPECT_FALSE(world.passes({{"broad", "x"}}));
}

TEST_F(DomainLimiterTest, WildcardsMatchInFileOrderAndShareWhereTold) {
  World world(R"(
domain: d
descriptors:
  - key: f
    value: shared*
    share_threshold: true
    rate_limit: {unit: day, requests_per_unit: 2}
  - key: f
    value: own*
    rate_limit: {unit: day, requests_per_unit: 2}
)",
              clock);
  EXPECT_TRUE(world.passes({{"f", "shared1"}}));
  EXPECT_TRUE(world.passes({{"f", "shared2"}}));
  EXPECT_FALSE(world.passes({{"f", "shared3"}}));
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(world.passes({{"f", "own1"}}));
    EXPECT_TRUE(world.passes({{"f", "own2"}}));
  }
  EXPECT_FALSE(world.passes({{"f", "own1"}}));
  EXPECT_FALSE(world.ask({{"f", "other"}}).statuses[0].limit);
}

TEST_F(DomainLimiterTest, ALimitThatTheRequestBringsHolds) {
  World world(kBasic, clock);
  const auto ask = [&world](std::uint32_t requests, LimitUnit unit) {
    return world.ask({{{{"user", "a"}}, std::nullopt, LimitOverride{requests, unit}}});
  };
  EXPECT_TRUE(ask(1, LimitUnit::minute).decision.allowed());
  const auto over = ask(1, LimitUnit::minute);
  EXPECT_TRUE(over.statuses[0].over);
  EXPECT_EQ(over.statuses[0].limit->requests_per_unit, 1U);
  EXPECT_EQ(over.statuses[0].limit->unit, LimitUnit::minute);
  // A higher one finds what is used, and is not poisoned by the lower one's denial.
  const auto higher = ask(10, LimitUnit::minute);
  EXPECT_TRUE(higher.decision.allowed());
  EXPECT_EQ(higher.statuses[0].remaining, 8U);
  // Another unit, and the configured limit, count by themselves.
  EXPECT_TRUE(ask(1, LimitUnit::hour).decision.allowed());
  EXPECT_EQ(world.ask({{"user", "a"}}).statuses[0].remaining, 1U);
  EXPECT_EQ(ask(0, LimitUnit::day).decision.reason, Reason::blocked);
  // Also where nothing is configured.
  EXPECT_TRUE(world.ask({{{{"no", "x"}}, std::nullopt, LimitOverride{1, LimitUnit::year}}})
                  .statuses[0]
                  .limit);
}

TEST_F(DomainLimiterTest, AnOverrideOfUnknownUnitLeavesTheConfiguredLimit) {
  World world(kBasic, clock);
  const std::vector<Asked> odd = {
      {{{"user", "a"}}, std::nullopt, LimitOverride{100, LimitUnit::unknown}}};
  EXPECT_EQ(world.ask(odd).statuses[0].limit->requests_per_unit, 2U);
  EXPECT_EQ(world.ask(odd).statuses[0].remaining, 0U);
  EXPECT_FALSE(world.ask(odd).decision.allowed());
}

TEST_F(DomainLimiterTest, MetadataOfLimitsThatArePassedIsToldInOrder) {
  World world(R"(
domain: d
descriptors:
  - key: a
    rate_limit: {unit: day, requests_per_unit: 1}
    metadata: {tier: gold}
  - key: b
    rate_limit: {unlimited: true}
    metadata: {n: 1}
)",
              clock);
  const std::vector<Asked> both = {{{{"a", ""}}}, {{{"b", ""}}}};
  auto answer = world.ask(both);
  ASSERT_EQ(answer.metadata.size(), 2U);
  EXPECT_EQ(answer.metadata[0], R"({"tier":"gold"})");
  answer = world.ask(both);
  ASSERT_EQ(answer.metadata.size(), 1U);
  EXPECT_EQ(answer.metadata[0], R"({"n":1})");
}

TEST_F(DomainLimiterTest, WhatAClientSendsIsNeverAnError) {
  World world(kBasic, clock);
  const std::string binary("\0\xff\xfe", 3);
  const std::string longer(8192, 'x');
  for (const std::string& value : {binary, longer, std::string()}) {
    EXPECT_TRUE(world.passes({{"user", value}}));
    EXPECT_TRUE(world.passes({{"user", value}}));
    EXPECT_FALSE(world.passes({{"user", value}}));
  }
  const std::string huge((1U << 20U) + 1, 'x');
  const auto answer = world.ask({{"user", huge}});
  EXPECT_EQ(answer.decision.verdict, Verdict::refused);
  EXPECT_EQ(answer.decision.reason, Reason::invalid_request);
}

TEST_F(DomainLimiterTest, AsManyCountersAsAStoreTakes) {
  World world(kBasic, clock);
  const auto many = [](std::size_t count) {
    std::vector<std::string> values;
    for (std::size_t i = 0; i < count; ++i) values.push_back(std::to_string(i));
    return values;
  };
  const auto ask = [&world](const std::vector<std::string>& values) {
    std::vector<Asked> asked;
    for (const std::string& value : values) asked.push_back({{{"user", value}}});
    return world.ask(asked);
  };
  EXPECT_TRUE(ask(many(64)).decision.allowed());
  const auto refused = ask(many(65));
  EXPECT_EQ(refused.decision.reason, Reason::invalid_request);
  EXPECT_EQ(refused.decision.fault,
            "a value is above 1 MiB, or there are more than 64 different counters");
  // Equal ones are one counter.
  EXPECT_FALSE(ask(std::vector<std::string>(65, "x")).decision.allowed());
}

TEST_F(DomainLimiterTest, AnUnknownDomainIsAdmittedAndCounted) {
  World world(kBasic, clock);
  for (const char* domain : {"other", ""}) {
    const auto answer = world.ask({{{{"user", "a"}}}}, 1, domain);
    EXPECT_TRUE(answer.decision.allowed());
    EXPECT_FALSE(answer.statuses[0].limit);
  }
  std::string metrics;
  world.guard().impl().metrics().write(metrics);
  EXPECT_NE(metrics.find("weir_unmatched_total 2\n"), std::string::npos);
}

TEST_F(DomainLimiterTest, HeadersWantToBeAskedFor) {
  World world(kBasic, clock);
  EXPECT_EQ(world.ask({{"user", "a"}}).decision.profiles, 0);
}

TEST_F(DomainLimiterTest, AReloadKeepsWhatIsUsed) {
  World world(kBasic, clock);
  (void)world.ask({{"user", "a"}}, 2);
  for (int i = 0; i < 40; ++i) EXPECT_FALSE(world.passes({{"user", "a"}}));
  std::string more = kBasic;
  more.replace(more.find("requests_per_unit: 2"), 20, "requests_per_unit: 5");
  ASSERT_TRUE(world.guard().reload(Policy::parse(more).value()));
  int passed = 0;
  for (int i = 0; i < 10; ++i) passed += world.passes({{"user", "a"}}) ? 1 : 0;
  EXPECT_EQ(passed, 3);
}

// "user" and "user: vip" are the same way to a counter, so they share an identity.
TEST_F(DomainLimiterTest, ARefundIsReckonedInTheNumbersItWasChargedUnder) {
  World world(R"(
domain: d
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 2, algorithm: gcra}
  - key: user
    value: vip
    rate_limit: {unit: minute, requests_per_unit: 600, algorithm: gcra}
)",
              clock);
  // One unit of the bare key's rule is worth 300 of the other's.
  const RateLimitAnswer vip = world.ask({{"user", "vip"}}, 600);
  ASSERT_TRUE(vip.decision.allowed());
  ASSERT_TRUE(world.guard().refund(vip.decision));
  EXPECT_EQ(world.ask({{"user", "vip"}}, 0).statuses.at(0).remaining, 600);
  const RateLimitAnswer first = world.ask({{"user", "a"}});
  EXPECT_TRUE(world.passes({{"user", "a"}}));
  ASSERT_TRUE(world.guard().refund(first.decision));
  EXPECT_TRUE(world.passes({{"user", "a"}}));
  EXPECT_FALSE(world.passes({{"user", "a"}}));
}

TEST_F(DomainLimiterTest, ADescriptorsHitsComeBeforeThoseOfTheRequest) {
  World world(R"(
domain: d
descriptors:
  - key: a
    rate_limit: {unit: minute, requests_per_unit: 10}
  - key: b
    rate_limit: {unit: minute, requests_per_unit: 10}
  - key: c
    rate_limit: {unit: minute, requests_per_unit: 10}
)",
              clock);
  const RateLimitAnswer answer =
      world.ask({{{{"a", "x"}}}, {{{"b", "x"}}, 0}, {{{"c", "x"}}, 2}}, 4);
  EXPECT_EQ(answer.statuses.at(0).remaining, 6);
  EXPECT_EQ(answer.statuses.at(1).remaining, 10);
  EXPECT_EQ(answer.statuses.at(2).remaining, 8);
  EXPECT_EQ(answer.decision.cost, 4);
}

// A probe beside a descriptor that is charged: it never writes, and denies where it would.
TEST_F(DomainLimiterTest, AProbeOfAnExhaustedDescriptorDeniesAndChargesNobody) {
  World world(R"(
domain: d
descriptors:
  - key: a
    rate_limit: {unit: minute, requests_per_unit: 10}
  - key: b
    rate_limit: {unit: minute, requests_per_unit: 1}
)",
              clock);
  ASSERT_TRUE(world.passes({{"b", "x"}}));
  for (int i = 0; i < 100; ++i) {
    const RateLimitAnswer answer = world.ask({{{{"a", "x"}}}, {{{"b", "x"}}, 0}});
    EXPECT_FALSE(answer.decision.allowed());
    EXPECT_TRUE(answer.statuses.at(1).over);
  }
  EXPECT_EQ(world.ask(std::vector<Asked>{{{{"a", "x"}}, 0}}).statuses.at(0).remaining, 10);
}

TEST_F(DomainLimiterTest, AnOverrideOfUnknownUnitBringsNoLimitWhereNoneIsConfigured) {
  World world(kBasic, clock);
  const LimitOverride nonsense{.requests_per_unit = 0, .unit = LimitUnit::unknown};
  for (int i = 0; i < 3; ++i) {
    const RateLimitAnswer answer =
        world.ask(std::vector<Asked>{{{{"nobody", "x"}}, std::nullopt, nonsense}});
    EXPECT_TRUE(answer.decision.allowed());
    EXPECT_FALSE(answer.statuses.at(0).limit.has_value());
  }
}

}  // namespace
}  // namespace weir::guard
