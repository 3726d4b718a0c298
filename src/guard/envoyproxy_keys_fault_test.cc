// Domains that are counted under the names, and in the manner, of envoyproxy/ratelimit: both on one
// budget. The other server is what it sends: INCRBY and EXPIRE of a name that ends in the start of
// the window.

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
#include <vector>

#include "guard/domain_limiter.h"
#include "guard/impl.h"
#include "testing/rate_limit_listeners.h"
#include "testing/redis_cluster.h"
#include "testing/redis_server.h"
#include "testing/until.h"

namespace weir::guard {
namespace {

using std::chrono::seconds;
using weir::testing::Mailbox;
using weir::testing::RedisServer;

constexpr std::int64_t kDay = 86'400;

constexpr const char* kDomain = R"(
domain: d
descriptors:
  - key: broad
    rate_limit: {unit: day, requests_per_unit: 10, name: broad}
  - key: narrow
    rate_limit: {unit: day, requests_per_unit: 3}
  - key: watched
    shadow_mode: true
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: brief
    rate_limit: {unit: second, requests_per_unit: 3}
  - key: path
    value: files/*
    share_threshold: true
    rate_limit: {unit: week, requests_per_unit: 5}
)";

class EnvoyproxyKeys : public ::testing::Test {
 protected:
  EnvoyproxyKeys()
      : folder_(std::filesystem::path(::testing::TempDir()) /
                ("weir_envoyproxy_keys_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~EnvoyproxyKeys() override { std::filesystem::remove_all(folder_); }

  Result<Guard> open(const std::string& domain = kDomain, const std::string& deadline = "5s",
                     const std::string& more = "") {
    auto policy = policy_on(domain, deadline, ", keys: envoyproxy" + more);
    if (!policy) return policy.error();
    return Guard::open(std::move(*policy));
  }
  Result<Policy> policy_on(const std::string& domain, const std::string& deadline,
                           const std::string& rls) {
    std::ofstream(folder_ / "weir.yaml")
        << "store:\n  url: "
        << (url_.empty() ? "redis://127.0.0.1:" + std::to_string(server_.port()) : url_)
        << "\n  connect_timeout: 2s\n  deadline: " << deadline
        << "\n  breaker: {cooldown: 20ms, max_cooldown: 40ms}\n  recovery: {steps: 1, step: 10ms}"
        << "\n  workers: {of: 2, index: 0}\nroutes: {}\nrls: {protects: capacity" << rls << "}\n";
    std::ofstream(folder_ / "domain.yaml") << domain;
    return Policy::load(folder_.string());
  }
  static bool shows(Guard& guard, std::string_view text) {
    return weir::testing::until(
        [&] { return guard.impl().shared()->state_json().find(text) != std::string::npos; });
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
    if (limiter.decide({.domain = "d", .descriptors = asked}, answer, mailbox_, ticket)) {
      return answer;
    }
    return mailbox_.take(ticket);
  }

  // Days and weeks do not end while a test runs, but for those that begin at the very end of one.
  std::string window(std::int64_t length = kDay) {
    const std::string time = server_.execute({"TIME"});
    const std::int64_t now = std::stoll(time.substr(time.find("\r\n", 4) + 2));
    return std::to_string(now / length * length);
  }
  // What the other server does for one hit, and what it finds.
  std::int64_t other_hits(const std::string& name, std::int64_t hits = 1) {
    const std::int64_t count = std::stoll(server_.text({"INCRBY", name, std::to_string(hits)}));
    server_.execute({"EXPIRE", name, std::to_string(kDay + 17)});
    return count;
  }

  RedisServer server_;
  std::string url_;
  std::filesystem::path folder_;
  Mailbox mailbox_;
  std::uint64_t ticket_ = 0;
};

TEST_F(EnvoyproxyKeys, CountUnderTheOtherServersName) {
  Guard guard = open().value();
  DomainLimiter limiter(guard);
  EXPECT_EQ(ask(limiter, {{{{"broad", "x"}}}}).statuses[0].remaining, 9U);
  const std::string name = "d_broad_x_" + window();
  EXPECT_EQ(server_.text({"GET", name}), "1");
  const std::int64_t ttl = std::stoll(server_.text({"TTL", name}));
  EXPECT_GE(ttl, kDay - 20);
  EXPECT_LE(ttl, kDay + 300);
  EXPECT_TRUE(server_.keys("weir:1:{*}*/*").empty()) << "no counter of Weir's own";
}

TEST_F(EnvoyproxyKeys, ServersShareOneBudget) {
  Guard guard = open().value();
  DomainLimiter limiter(guard);
  const std::string name = "d_broad_x_" + window();
  for (std::int64_t turn = 0; turn < 5; ++turn) {
    EXPECT_EQ(other_hits(name), 2 * turn + 1);
    const auto answer = ask(limiter, {{{{"broad", "x"}}}});
    EXPECT_TRUE(answer.decision.allowed());
    EXPECT_EQ(answer.statuses[0].remaining, 8U - static_cast<unsigned>(2 * turn));
    EXPECT_EQ(answer.statuses[0].limit->requests_per_unit, 10U);
    EXPECT_EQ(answer.statuses[0].limit->name, "broad");
  }
  EXPECT_EQ(other_hits(name), 11) << "the first that is too many, there";
  const auto denied = ask(limiter, {{{{"broad", "x"}}}});
  EXPECT_EQ(denied.decision.verdict, Verdict::limited);
  EXPECT_EQ(denied.decision.rung, Rung::store);
  EXPECT_TRUE(denied.statuses[0].over);
  EXPECT_EQ(denied.statuses[0].remaining, 0U);
  EXPECT_EQ(server_.text({"GET", name}), "12");
}

// There every descriptor is added to, whatever the others say, and also once it is over.
TEST_F(EnvoyproxyKeys, ADenialIsAddedToEveryDescriptor) {
  Guard guard = open().value();
  DomainLimiter limiter(guard);
  const std::vector<Asked> both = {{{{"broad", "x"}}}, {{{"narrow", "x"}}}};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(ask(limiter, both).decision.allowed(), i < 3) << i;
  const auto last = ask(limiter, both);
  EXPECT_EQ(last.decision.rung, Rung::store) << "not what was known a moment ago";
  EXPECT_FALSE(last.statuses[0].over);
  EXPECT_EQ(last.statuses[0].remaining, 3U);
  EXPECT_TRUE(last.statuses[1].over);
  EXPECT_EQ(server_.text({"GET", "d_broad_x_" + window()}), "7");
  EXPECT_EQ(server_.text({"GET", "d_narrow_x_" + window()}), "7");
}

TEST_F(EnvoyproxyKeys, HitsAreAddedWholeAndNoneAreOnlyLookedFor) {
  Guard guard = open().value();
  DomainLimiter limiter(guard);
  const std::string name = "d_broad_x_" + window();
  EXPECT_FALSE(ask(limiter, {{{{"broad", "x"}}, 0}}).statuses[0].over);
  EXPECT_EQ(server_.text({"EXISTS", name}), "0");
  EXPECT_EQ(ask(limiter, {{{{"broad", "x"}}, 10}}).statuses[0].remaining, 0U);
  EXPECT_FALSE(ask(limiter, {{{{"broad", "x"}}, 0}}).statuses[0].over) << "at the limit, not over";
  // More than is left: all of it is added, and nothing of it is taken off again.
  EXPECT_TRUE(ask(limiter, {{{{"broad", "x"}}, 50}}).statuses[0].over);
  EXPECT_EQ(server_.text({"GET", name}), "60");
  EXPECT_TRUE(ask(limiter, {{{{"broad", "x"}}, 0}}).statuses[0].over);
  // One that can never fit is not told when to come again.
  EXPECT_FALSE(ask(limiter, {{{{"narrow", "x"}}, 1'000'000'000'000U}}).decision.retry_after);
  EXPECT_EQ(server_.text({"GET", "d_narrow_x_" + window()}), "1000000000000");
}

TEST_F(EnvoyproxyKeys, NamesHavePrefixPatternAndOverrideAsThere) {
  Guard guard = open(kDomain, "5s", ", key_prefix: 'old:'").value();
  DomainLimiter limiter(guard);
  EXPECT_TRUE(ask(limiter, {{{{"path", "files/a"}}}}).decision.allowed());
  EXPECT_EQ(ask(limiter, {{{{"path", "files/b"}}}}).statuses[0].remaining, 3U) << "one counter";
  EXPECT_EQ(server_.text({"GET", "old:d_path_files/*_" + window(7 * kDay)}), "2");
  const LimitOverride brought{.requests_per_unit = 4, .unit = LimitUnit::month};
  const auto answer = ask(limiter, {{{{"any", "1"}, {"thing", "2"}}, std::nullopt, brought}});
  EXPECT_EQ(answer.statuses[0].remaining, 3U);
  EXPECT_EQ(server_.text({"GET", "old:d_any_1_thing_2_" + window(30 * kDay)}), "1");
}

TEST_F(EnvoyproxyKeys, AShadowIsCountedAndNeverDenies) {
  Guard guard = open().value();
  DomainLimiter limiter(guard);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(ask(limiter, {{{{"watched", "x"}}}}).decision.allowed());
  EXPECT_EQ(server_.text({"GET", "d_watched_x_" + window()}), "3");
}

// A value that is no count is that key's matter: it begins anew. One that is full stays so.
TEST_F(EnvoyproxyKeys, WhatIsNoCountBeginsAnew) {
  Guard guard = open().value();
  DomainLimiter limiter(guard);
  server_.execute({"SET", "d_broad_text_" + window(), "text"});
  server_.execute({"RPUSH", "d_broad_list_" + window(), "element"});
  server_.execute({"SET", "d_broad_full_" + window(), "9223372036854775807"});
  server_.execute({"SET", "d_broad_less_" + window(), "-5"});
  for (const char* value : {"text", "list"}) {
    EXPECT_EQ(ask(limiter, {{{{"broad", value}}}}).statuses[0].remaining, 9U) << value;
    EXPECT_EQ(server_.text({"GET", "d_broad_" + std::string(value) + "_" + window()}), "1");
    EXPECT_NE(server_.text({"TTL", "d_broad_" + std::string(value) + "_" + window()}), "-1");
  }
  EXPECT_TRUE(ask(limiter, {{{{"broad", "full"}}}}).statuses[0].over);
  EXPECT_EQ(ask(limiter, {{{{"broad", "less"}}}}).statuses[0].remaining, 10U);
}

// Each second has a name of its own, and no ask is lost where one ends while it is on its way.
TEST_F(EnvoyproxyKeys, WindowsFollowEachOther) {
  Guard guard = open().value();
  DomainLimiter limiter(guard);
  std::uint64_t asked = 0;
  const auto end = std::chrono::steady_clock::now() + seconds(3);
  while (std::chrono::steady_clock::now() < end) {
    EXPECT_EQ(ask(limiter, {{{{"brief", "x"}}}}).decision.rung, Rung::store);
    ++asked;
  }
  std::uint64_t counted = 0;
  for (const std::string& name : server_.keys("d_brief_x_*")) {
    counted += std::stoull(server_.text({"GET", name}));
  }
  EXPECT_EQ(counted, asked);
  EXPECT_GE(server_.keys("d_brief_x_*").size(), 3U);
}

// The same ladder: this worker's part of what the store last said is left. Nothing of it is told
// afterwards, since the other server keeps no record by which a second telling would be known.
TEST_F(EnvoyproxyKeys, WithoutTheStoreAWorkerHasItsPart) {
  Guard guard = open(kDomain, "50ms").value();
  DomainLimiter limiter(guard);
  const std::string name = "d_broad_x_" + window();
  EXPECT_TRUE(ask(limiter, {{{{"broad", "x"}}}}).decision.allowed());
  other_hits(name, 1);
  server_.kill();
  std::vector<RateLimitAnswer> away;
  for (int i = 0; i < 12; ++i) away.push_back(ask(limiter, {{{{"broad", "x"}}}}));
  std::uint64_t admitted = 0;
  for (const RateLimitAnswer& answer : away) {
    if (answer.decision.allowed()) {
      ++admitted;
      EXPECT_EQ(answer.decision.rung, Rung::share);
    } else {
      EXPECT_EQ(answer.decision.verdict, Verdict::limited);
    }
  }
  // Nine were left when it last heard of the store, and there are two workers.
  EXPECT_GE(admitted, 4U);
  EXPECT_LE(admitted, 5U);
  std::string metrics;
  guard.impl().metrics().write(metrics);
  EXPECT_NE(metrics.find("\nweir_owed_units{shard=\"0\"} 0\n"), std::string::npos) << metrics;
  server_.start();
  const auto give_up = std::chrono::steady_clock::now() + seconds(20);
  RateLimitAnswer back;
  std::uint64_t asked = 0;
  while (back.decision.rung != Rung::store && std::chrono::steady_clock::now() < give_up) {
    back = ask(limiter, {{{{"broad", "y"}}}});
  }
  ASSERT_EQ(back.decision.rung, Rung::store);
  // The server came back empty: it holds what was asked since, and no more.
  do {
    back = ask(limiter, {{{{"broad", "x"}}}});
    if (back.decision.rung == Rung::store) ++asked;
  } while (asked < 2);
  EXPECT_EQ(server_.text({"GET", name}), "2");
}

// There every denied hit is added, and in an outage to the part.
TEST_F(EnvoyproxyKeys, WithoutTheStoreADenialUsesUpThePart) {
  Guard guard = open(kDomain, "2s").value();
  DomainLimiter limiter(guard);
  ASSERT_EQ(ask(limiter, {{{{"broad", "first"}}}}).decision.rung, Rung::store);
  server_.kill();
  EXPECT_TRUE(ask(limiter, {{{{"broad", "x"}}}}).decision.allowed());
  EXPECT_FALSE(ask(limiter, {{{{"broad", "x"}}, 30}}).decision.allowed());
  EXPECT_FALSE(ask(limiter, {{{{"broad", "x"}}}}).decision.allowed());
  EXPECT_NE(guard.impl().shared()->state_json().find("\"owed_units\":0"), std::string::npos)
      << "nothing is owed there";
}

TEST_F(EnvoyproxyKeys, OnAClusterEveryNameIsWhereItsNameSays) {
  testing::RedisCluster cluster;
  url_ = cluster.url();
  Guard guard = open().value();
  DomainLimiter limiter(guard);
  for (int i = 0; i < 40; ++i) {
    const std::string value = "v" + std::to_string(i);
    const std::vector<Asked> both = {{{{"broad", value}}}, {{{"narrow", value}}}};
    for (int turn = 0; turn < 5; ++turn) {
      const auto answer = ask(limiter, both);
      EXPECT_EQ(answer.decision.allowed(), turn < 3);
      EXPECT_EQ(answer.decision.rung, Rung::store);
    }
    std::size_t found = 0;
    for (std::size_t node = 0; node < cluster.size(); ++node) {
      for (const char* key : {"broad_", "narrow_"}) {
        const std::string count =
            cluster.node(node).text({"GET", "d_" + std::string(key) + value + "_" + window()});
        if (count == "5") ++found;
      }
    }
    EXPECT_EQ(found, 2U) << value;
  }
}

// Rights to Weir's own names are none to those: that is said on connecting, and not call by call.
TEST_F(EnvoyproxyKeys, AreTriedOnConnecting) {
  server_.execute({"ACL", "SETUSER", "default", "resetkeys", "~weir:*"});
  Guard guard = open().value();
  DomainLimiter limiter(guard);
  EXPECT_TRUE(shows(guard, "give it all that begin so: ~d_*"))
      << guard.impl().shared()->state_json();
  EXPECT_NE(ask(limiter, {{{{"broad", "x"}}}}).decision.rung, Rung::store);
  server_.execute({"ACL", "SETUSER", "default", "~d_*"});
  EXPECT_TRUE(weir::testing::until([&] {
    return ask(limiter, {{{{"broad", "x"}}}}).decision.rung == Rung::store;
  }));
}

// Else the store would be one that is away, for limits that have nothing to do with them.
TEST_F(EnvoyproxyKeys, AreRefusedInAReloadThatBringsThemWithoutRights) {
  server_.execute({"ACL", "SETUSER", "default", "resetkeys", "~weir:*"});
  Guard guard = Guard::open(policy_on(kDomain, "5s", "").value()).value();
  DomainLimiter limiter(guard);
  EXPECT_EQ(ask(limiter, {{{{"broad", "x"}}}}).decision.rung, Rung::store);
  const auto loaded = guard.reload(policy_on(kDomain, "5s", ", keys: envoyproxy").value());
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::failed_precondition);
  EXPECT_NE(loaded.error().message.find("give it all that begin so: ~d_*"), std::string::npos)
      << loaded.error().message;
  EXPECT_EQ(ask(limiter, {{{{"broad", "x"}}}}).decision.rung, Rung::store);
  EXPECT_TRUE(shows(guard, "\"connected\":true"));
  server_.execute({"ACL", "SETUSER", "default", "~d_*"});
  ASSERT_TRUE(guard.reload(policy_on(kDomain, "5s", ", keys: envoyproxy").value()));
  EXPECT_EQ(ask(limiter, {{{{"broad", "x"}}}}).decision.rung, Rung::store);
  EXPECT_EQ(server_.text({"GET", "d_broad_x_" + window()}), "1");
  // Rights that were taken since are no reason to keep what is in force.
  server_.execute({"ACL", "SETUSER", "default", "resetkeys", "~weir:*"});
  EXPECT_TRUE(guard.reload(policy_on(kDomain, "5s", ", keys: envoyproxy").value()));
}

TEST_F(EnvoyproxyKeys, AreRefusedInAReloadWhereOneMasterRefusesThem) {
  testing::RedisCluster cluster;
  url_ = cluster.url();
  Guard guard = Guard::open(policy_on(kDomain, "5s", "").value()).value();
  cluster.node(1).execute({"ACL", "SETUSER", "default", "resetkeys", "~weir:*"});
  EXPECT_FALSE(guard.reload(policy_on(kDomain, "5s", ", keys: envoyproxy").value()));
  cluster.node(1).execute({"ACL", "SETUSER", "default", "~*"});
  EXPECT_TRUE(guard.reload(policy_on(kDomain, "5s", ", keys: envoyproxy").value()));
}

// Who cannot be asked objects to nothing: a reload must not wait for a store that is away.
TEST_F(EnvoyproxyKeys, AreTriedOnConnectingWhereAReloadBringsThemMeanwhile) {
  server_.execute({"ACL", "SETUSER", "default", "resetkeys", "~weir:*"});
  Guard guard = Guard::open(policy_on(kDomain, "5s", "").value()).value();
  EXPECT_TRUE(shows(guard, "\"connected\":true"));
  server_.kill();
  EXPECT_TRUE(shows(guard, "\"connected\":false"));
  ASSERT_TRUE(guard.reload(policy_on(kDomain, "5s", ", keys: envoyproxy").value()));
  server_.start();
  server_.execute({"ACL", "SETUSER", "default", "resetkeys", "~weir:*"});
  EXPECT_TRUE(shows(guard, "give it all that begin so: ~d_*"))
      << guard.impl().shared()->state_json();
  ASSERT_TRUE(guard.reload(policy_on(kDomain, "5s", "").value()));
  EXPECT_TRUE(shows(guard, "\"connected\":true")) << "and are tried no longer";
}

// Each master is asked, whichever of them owns the slot of a name.
TEST_F(EnvoyproxyKeys, AreTriedOnEveryMaster) {
  testing::RedisCluster cluster;
  url_ = cluster.url();
  cluster.node(1).execute({"ACL", "SETUSER", "default", "resetkeys", "~weir:*"});
  Guard guard = open().value();
  EXPECT_TRUE(shows(guard, "give it all that begin so: ~d_*"))
      << guard.impl().shared()->state_json();
  EXPECT_TRUE(shows(guard, "\"connected\":true")) << "the others count";
  cluster.node(1).execute({"ACL", "SETUSER", "default", "~*"});
  EXPECT_TRUE(weir::testing::until([&] {
    return guard.impl().shared()->state_json().find("\"connected\":false") == std::string::npos;
  }));
}

TEST_F(EnvoyproxyKeys, NeedWindowsAndAStore) {
  const auto gcra = open(
      "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1, algorithm: "
      "gcra}}]\n");
  ASSERT_FALSE(gcra);
  EXPECT_NE(gcra.error().message.find("is no fixed window"), std::string::npos)
      << gcra.error().message;
  url_ = "'memory:'";
  const auto memory = open();
  ASSERT_FALSE(memory);
  EXPECT_NE(memory.error().message.find("rls.keys"), std::string::npos) << memory.error().message;
}

}  // namespace
}  // namespace weir::guard
