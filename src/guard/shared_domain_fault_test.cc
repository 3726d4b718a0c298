// Domains of Envoy-style files on a real Redis: exact while it answers, by policy while it does
// not.

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "guard/domain_limiter.h"
#include "testing/rate_limit_listeners.h"
#include "testing/redis_cluster.h"
#include "testing/redis_server.h"

namespace weir::guard {
namespace {

using std::chrono::seconds;
using weir::testing::Mailbox;
using weir::testing::RedisServer;

class SharedDomain : public ::testing::Test {
 protected:
  SharedDomain()
      : folder_(std::filesystem::path(::testing::TempDir()) /
                ("weir_shared_domain_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~SharedDomain() override { std::filesystem::remove_all(folder_); }

  Result<Guard> open(const std::string& rls, const std::string& domain,
                     const std::string& deadline = "5s", const std::string& routes = "{}") {
    std::ofstream(folder_ / "weir.yaml")
        << "store:\n  url: "
        << (url_.empty() ? "redis://127.0.0.1:" + std::to_string(server_.port()) : url_)
        << "\n  connect_timeout: 2s\n  deadline: " << deadline
        << "\n  workers: {of: 2, index: 0}\nroutes: " << routes << '\n'
        << rls;
    std::ofstream(folder_ / "domain.yaml") << domain;
    auto policy = Policy::load(folder_.string());
    if (!policy) return policy.error();
    return Guard::open(std::move(*policy));
  }
  struct Asked {
    std::vector<DescriptorEntry> entries;
    std::optional<std::uint64_t> hits = std::nullopt;
    std::optional<LimitOverride> limit = std::nullopt;
  };
  RateLimitAnswer ask(DomainLimiter& limiter, const std::vector<Asked>& descriptors) {
    std::vector<AskedDescriptor> asked;
    for (const Asked& each : descriptors) asked.push_back({each.entries, each.limit, each.hits});
    RateLimitAnswer answer;
    const std::uint64_t ticket = ++ticket_;
    if (limiter.decide({.domain = domain_, .descriptors = asked}, answer, mailbox_, ticket)) {
      return answer;
    }
    return mailbox_.take(ticket);
  }
  // Whether a store says within a test's patience that so much is left.
  bool comes_to(DomainLimiter& limiter, const Asked& probe, std::uint64_t left) {
    const auto give_up = std::chrono::steady_clock::now() + testing::kPatience;
    while (std::chrono::steady_clock::now() < give_up) {
      const auto status = ask(limiter, {probe}).statuses[0];
      if (status.limit && status.remaining == left) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  RedisServer server_;
  std::string url_;  // empty: the server's
  std::filesystem::path folder_;
  Mailbox mailbox_;
  std::uint64_t ticket_ = 0;
  std::string domain_ = "d";  // that is asked about
};

constexpr const char* kSharedDomain = R"(
domain: d
descriptors:
  - key: broad
    rate_limit: {unit: day, requests_per_unit: 10, name: broad}
  - key: narrow
    rate_limit: {unit: day, requests_per_unit: 3}
  - key: open
    when_store_fails: open
    rate_limit: {unit: day, requests_per_unit: 3}
  - key: watched
    shadow_mode: true
    rate_limit: {unit: day, requests_per_unit: 3}
  - key: quota
    quota_mode: true
    rate_limit: {unit: day, requests_per_unit: 3}
)";

TEST_F(SharedDomain, TwoWorkersKeepOneLimitAndADenialChargesNothing) {
  Guard first = open("rls: {protects: security}\n", kSharedDomain).value();
  Guard second = open("rls: {protects: security}\n", kSharedDomain).value();
  DomainLimiter a(first);
  DomainLimiter b(second);
  const std::vector<Asked> both = {{{{"broad", "x"}}}, {{{"narrow", "x"}}}};
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(ask(i % 2 == 0 ? a : b, both).decision.allowed()) << i;
  const auto denied = ask(b, both);
  EXPECT_EQ(denied.decision.verdict, Verdict::limited);
  EXPECT_EQ(denied.decision.rung, Rung::store);
  EXPECT_TRUE(denied.statuses[1].over);
  EXPECT_FALSE(denied.statuses[0].over);
  ASSERT_TRUE(denied.statuses[0].limit);
  EXPECT_EQ(denied.statuses[0].limit->name, "broad");
  EXPECT_EQ(denied.statuses[0].remaining, 7U);
  // What the store said a moment ago is known here: who is over, but not what the others have left.
  const auto known = ask(b, both);
  EXPECT_EQ(known.decision.rung, Rung::known);
  EXPECT_TRUE(known.statuses[1].over);
  EXPECT_FALSE(known.statuses[0].over);
  EXPECT_FALSE(known.statuses[0].limit);
}

TEST_F(SharedDomain, ACostThatNeverFitsIsSaidToBeSoOfAKnownKeyToo) {
  Guard guard = open("rls: {protects: security}\n", kSharedDomain).value();
  DomainLimiter limiter(guard);
  ASSERT_TRUE(ask(limiter, {{{{"narrow", "x"}}}}).decision.allowed());
  const auto never = ask(limiter, {{{{"narrow", "x"}}, 4}}).decision;
  EXPECT_EQ(never.rung, Rung::known);
  EXPECT_EQ(never.verdict, Verdict::limited);
  EXPECT_EQ(never.reason, Reason::cost_exceeds_burst);
  EXPECT_EQ(never.retry_after, std::nullopt);
}

// Its descriptors lie in two slots, as a rule on two masters.
TEST_F(SharedDomain, OnAClusterADenialChargesNothingOfAnyDescriptor) {
  testing::RedisCluster cluster;
  url_ = cluster.url();
  Guard guard = open("rls: {protects: security}\n", kSharedDomain).value();
  Guard fresh = open("rls: {protects: security}\n", kSharedDomain).value();
  DomainLimiter limiter(guard);
  DomainLimiter other(fresh);
  for (int pair = 0; pair < 6; ++pair) {
    const std::string broad = "b" + std::to_string(pair);
    const std::string narrow = "n" + std::to_string(pair);
    const std::vector<Asked> both = {{{{"broad", broad}}}, {{{"narrow", narrow}}}};
    for (int i = 0; i < 3; ++i) {
      const auto answer = ask(limiter, both);
      EXPECT_TRUE(answer.decision.allowed());
      EXPECT_EQ(answer.statuses[0].remaining, 9U - static_cast<unsigned>(i));
    }
    const auto denied = ask(other, both);
    EXPECT_EQ(denied.decision.verdict, Verdict::limited);
    EXPECT_EQ(denied.decision.rung, Rung::store);
    EXPECT_TRUE(denied.statuses[1].over);
    EXPECT_FALSE(denied.statuses[0].over);
    EXPECT_EQ(denied.statuses[0].remaining, 7U);
    // And it is so in the store, once what was reserved has been given back.
    std::optional<std::uint64_t> left;
    const auto give_up = std::chrono::steady_clock::now() + seconds(20);
    while (left != 7U && std::chrono::steady_clock::now() < give_up) {
      left = ask(other, {{{{"broad", broad}}, 0}}).statuses[0].remaining;
    }
    EXPECT_EQ(left, 7U) << pair;
  }
}

TEST_F(SharedDomain, ALateReportDrainsToTheLimit) {
  Guard guard = open("rls: {protects: security}\n", kSharedDomain).value();
  DomainLimiter limiter(guard);
  EXPECT_TRUE(ask(limiter, {{{{"broad", "x"}}}}).decision.allowed());
  EXPECT_TRUE(ask(limiter, {{{{"broad", "x"}}, 50}}).statuses[0].over);
  // The report is told after its answer; nothing of it is left to wait for but the store's order.
  EXPECT_FALSE(ask(limiter, {{{{"broad", "x"}}}}).decision.allowed());
}

// What is reported late is told each master by itself: one that is away keeps no other from it, and
// takes nothing back from it.
TEST_F(SharedDomain, OnAClusterALateReportDrainsWhatCanBeReached) {
  testing::RedisCluster cluster;
  url_ = cluster.url();
  Guard guard = open("rls: {protects: security}\n", kSharedDomain, "500ms").value();
  DomainLimiter limiter(guard);
  const auto master_of = [&](const std::string& value) {
    std::size_t i = 0;
    while (i < cluster.size() && cluster.node(i).keys("weir:1:{*}*/" + value).empty()) ++i;
    return i;
  };
  std::string near;
  std::string far;
  for (int i = 0; i < 200 && far.empty(); ++i) {
    const std::string value = "v" + std::to_string(i);
    (void)ask(limiter, {{{{"broad", value}}, 8}});
    if (master_of(value) == cluster.size()) continue;
    if (near.empty()) near = value;
    if (master_of(value) != master_of(near)) far = value;
  }
  ASSERT_FALSE(far.empty());
  cluster.node(master_of(far)).kill();
  const auto left = [&] {
    const auto status = ask(limiter, {{{{"broad", near}}, 0}}).statuses[0];
    return status.limit ? status.remaining : 99;
  };
  const auto give_up = std::chrono::steady_clock::now() + testing::kPatience;
  while (left() != 0 && std::chrono::steady_clock::now() < give_up) {
    // Denied by what was known a moment ago, or by the store.
    (void)ask(limiter, {{{{"broad", near}}, 5}, {{{"broad", far}}, 2}});
  }
  EXPECT_TRUE(comes_to(limiter, {{{"broad", near}}, 0}, 0));
}

// Reports of an outage were answered, and left the part as it was: whoever reports did not meter.
TEST_F(SharedDomain, ALateReportUsesUpThisWorkersPartWhileTheStoreIsAway) {
  const std::string routes = R"(
  native:
    limits: [{requests: 10, per: day, by: [user], algorithm: fixed_window}]
    protects: capacity
    ceiling: 1000 per second)";
  Guard guard =
      open("inputs: [user]\nrls: {protects: capacity}\n", kSharedDomain, "2s", routes).value();
  DomainLimiter limiter(guard);
  ASSERT_EQ(ask(limiter, {{{{"broad", "first"}}}}).decision.rung, Rung::store);
  ASSERT_EQ(ask(limiter, {{{{"broad", "known"}}, 2}}).decision.rung, Rung::store);
  server_.kill();
  for (const std::string domain : {"d", "native"}) {
    SCOPED_TRACE(domain);
    domain_ = domain;
    const std::string key = domain == "d" ? "broad" : "user";
    const auto is_over = [&](const RateLimitAnswer& answer) {
      EXPECT_EQ(answer.decision.verdict, Verdict::limited);
      EXPECT_EQ(answer.decision.rung, Rung::share);
      EXPECT_EQ(answer.decision.reason, Reason::over_share);
      EXPECT_TRUE(answer.statuses[0].over);
    };
    // Its part is five: more than the whole limit, more than the part, more than is left of it.
    is_over(ask(limiter, {{{{key, "whole"}}, 30}}));
    is_over(ask(limiter, {{{{key, "whole"}}}}));
    is_over(ask(limiter, {{{{key, "part"}}, 6}}));
    is_over(ask(limiter, {{{{key, "part"}}}}));
    EXPECT_TRUE(ask(limiter, {{{{key, "left"}}, 2}}).decision.allowed());
    is_over(ask(limiter, {{{{key, "left"}}, 4}}));
    is_over(ask(limiter, {{{{key, "left"}}}}));
  }
  domain_ = "d";
  // What is known to be over the limit for this cost is not for a smaller one.
  EXPECT_EQ(ask(limiter, {{{{"broad", "known"}}, 9}}).decision.rung, Rung::known);
  EXPECT_EQ(ask(limiter, {{{{"broad", "known"}}}}).decision.verdict, Verdict::limited);
  // And the store is told of as much as the part held.
  server_.start();
  EXPECT_TRUE(comes_to(limiter, {{{"broad", "whole"}}, 0}, 5));
}

// The numbers came with the request, which is over once it was answered; the report is told after.
TEST_F(SharedDomain, ALateReportUnderALimitThatTheRequestBringsOutlivesTheRequest) {
  Guard guard = open("rls: {protects: security}\n", kSharedDomain).value();
  Guard fresh = open("rls: {protects: security}\n", kSharedDomain).value();
  DomainLimiter limiter(guard);
  DomainLimiter other(fresh);
  constexpr LimitOverride kTenADay{.requests_per_unit = 10, .unit = LimitUnit::day};
  EXPECT_TRUE(ask(limiter, {{{{"any", "x"}}, 4, kTenADay}}).decision.allowed());
  const auto late = ask(other, {{{{"any", "x"}}, 8, kTenADay}});
  EXPECT_EQ(late.decision.rung, Rung::store);
  EXPECT_TRUE(late.statuses[0].over);
  EXPECT_TRUE(comes_to(limiter, {{{"any", "x"}}, 0, kTenADay}, 0));
}

TEST_F(SharedDomain, WithoutItsStoreTheStrictestPartDecides) {
  Guard guard =
      open("rls: {protects: security, rls_refusal: unavailable}\n", kSharedDomain, "20ms").value();
  DomainLimiter limiter(guard);
  server_.pause();
  const auto closed = ask(limiter, {{{{"broad", "x"}}}, {{{"open", "x"}}}});
  EXPECT_EQ(closed.decision.verdict, Verdict::refused);
  EXPECT_EQ(closed.decision.reason, Reason::store_unavailable);
  EXPECT_TRUE(closed.refuse_as_error);
  EXPECT_TRUE(closed.statuses[0].over);
  EXPECT_FALSE(closed.statuses[0].limit);
  const auto open = ask(limiter, {{{{"open", "x"}}}});
  EXPECT_TRUE(open.decision.allowed());
  EXPECT_EQ(open.decision.rung, Rung::policy);
  EXPECT_FALSE(open.statuses[0].over);
  const auto nothing = ask(limiter, {{{{"nothing", "x"}}}});
  EXPECT_TRUE(nothing.decision.allowed());
  EXPECT_EQ(nothing.decision.reason, Reason::no_limit);
  const auto watched = ask(limiter, {{{{"watched", "x"}}}});
  EXPECT_TRUE(watched.decision.allowed());
  EXPECT_EQ(watched.decision.rung, Rung::policy);
  EXPECT_FALSE(watched.statuses[0].over);
  EXPECT_TRUE(ask(limiter, {{{{"watched", "x"}}}, {{{"open", "x"}}}}).decision.allowed());
  const auto beside = ask(limiter, {{{{"watched", "x"}}}, {{{"narrow", "x"}}}});
  EXPECT_FALSE(beside.decision.allowed());
  EXPECT_FALSE(beside.statuses[0].over);
  EXPECT_TRUE(beside.statuses[1].over);
  EXPECT_FALSE(ask(limiter, {{{{"quota", "x"}}}}).decision.allowed()) << "a quota is in force";
  server_.resume();
}

TEST_F(SharedDomain, ADomainMustSayWhatHappensWithoutTheStore) {
  const auto guard = open("", kSharedDomain);
  ASSERT_FALSE(guard);
  EXPECT_NE(guard.error().message.find("domain 'd' does not say"), std::string::npos)
      << guard.error().message;
}

}  // namespace
}  // namespace weir::guard
