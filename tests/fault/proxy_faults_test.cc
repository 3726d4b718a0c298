// The network between a Guard and its store fails, in every way that the fault proxy knows.

#include <gtest/gtest.h>

#include "drill/proxy/fault_proxy.h"
#include "fault_rig.h"

namespace weir::fault {
namespace {

using drill::FaultProxy;
using drill::ProxyFaults;
using testing::RedisServer;
using Cut = ProxyFaults::Cut;
using Flow = ProxyFaults::Flow;
using namespace std::chrono_literals;

struct Network {
  const char* name;
  ProxyFaults faults;
  bool reset_first = false;   // connections that stand are cut off when it begins
  bool commands_run = false;  // the store counts, and nobody ever hears of it
  // What its callers were not told is not counted in the end: it never was, or it is given back
  // once the late reply says so.
  bool counts_nothing = false;
};

std::unique_ptr<FaultProxy> before(const RedisServer& server) {
  return FaultProxy::start({.target = "127.0.0.1:" + std::to_string(server.port())}).value();
}

class GuardOnABadNetwork : public ::testing::TestWithParam<Network> {
 protected:
  RedisServer server_;
  std::unique_ptr<FaultProxy> proxy_ = before(server_);
  Heard heard_;
};

std::vector<Network> outages() {
  return {
      {.name = "SlowReplies", .faults = ProxyFaults::slow(300ms, 100ms), .counts_nothing = true},
      {.name = "SlowRequests", .faults = {.request_delay = 300ms}, .counts_nothing = true},
      {.name = "Blackhole", .faults = ProxyFaults::blackhole(), .counts_nothing = true},
      {.name = "Refused",
       .faults = ProxyFaults::refuse(),
       .reset_first = true,
       .counts_nothing = true},
      {.name = "CutBeforeReplies", .faults = {.cut = Cut::before_reply}, .commands_run = true},
      {.name = "CutInsideReplies", .faults = {.cut = Cut::inside_reply}, .commands_run = true},
      {.name = "OneByteAtATime", .faults = {.between_bytes = 20ms}},
      {.name = "LostReplies", .faults = ProxyFaults::deaf(), .commands_run = true},
      {.name = "StalledThenFlushed", .faults = ProxyFaults::stall(), .counts_nothing = true},
      {.name = "StalledReplies", .faults = {.replies = Flow::stall}, .counts_nothing = true},
  };
}

TEST_P(GuardOnABadNetwork, IsAnsweredByPolicyChargesNothingTwiceAndComesBack) {
  const Network& network = GetParam();
  Guard guard = Guard::open(policy_on(proxy_->port()), {.observer = &heard_}).value();
  Tally calm;
  ASSERT_EQ(check(guard, "login", "u", calm).rung, Rung::store) << heard_.all();
  ASSERT_EQ(check(guard, "search", "u", calm).rung, Rung::store);
  Tally counts;
  for (int i = 0; i < 10; ++i) (void)check(guard, "count", "u", counts);
  ASSERT_EQ(counts.allowed_by_store, 10u);

  proxy_->set(network.faults);
  if (network.reset_first) proxy_->reset_connections();
  Tally closed, bounded, open;
  for (int i = 0; i < 25; ++i) {
    (void)check(guard, "count", "u", counts);
    const Decision login = check(guard, "login", "u", closed);
    EXPECT_EQ(login.verdict, Verdict::refused) << login.json();
    EXPECT_EQ(login.reason, Reason::store_unavailable);
    const Decision search = check(guard, "search", "u", bounded);
    EXPECT_EQ(search.rung, Rung::share) << search.json();
    const Decision status = check(guard, "status", "w", open);
    EXPECT_TRUE(status.allowed() && status.rung == Rung::policy) << status.json();
  }
  for (const Tally* tally : {&counts, &closed, &bounded, &open}) {
    EXPECT_EQ(tally->broken, 0u) << tally->example;
    EXPECT_TRUE(tally->in_time()) << tally->times();
  }
  // Ten over two workers; nine of them were left when the store went.
  EXPECT_EQ(bounded.allowed(), 5u);
  EXPECT_TRUE(eventually([&] { return heard_.count(StoreEvent::Kind::away) == 1; }))
      << heard_.all();
  EXPECT_EQ(metric(guard, "weir_breaker_transitions_total{shard=\"0\",to=\"open\"}"), 1);
  EXPECT_GE(store_errors(guard, "unreachable"), 5);

  proxy_->set({});
  ASSERT_TRUE(until_store(guard, "login", "u")) << heard_.all();
  EXPECT_TRUE(eventually([&] { return heard_.count(StoreEvent::Kind::back) == 1; }));
  Tally after;
  for (int i = 0; i < 10; ++i) {
    const Decision decision = check(guard, "count", "u", counts);
    EXPECT_TRUE(decision.allowed()) << decision.json();
    EXPECT_EQ(check(guard, "search", "after", after).rung, Rung::store);
  }
  // Each ask was counted once, if at all.
  const std::uint64_t stored = counted(guard, "u");
  EXPECT_GE(stored, counts.allowed_by_store);
  EXPECT_LE(stored, counts.asked);
  if (network.commands_run) {
    EXPECT_GT(stored, counts.allowed_by_store);
  }
  if (network.counts_nothing) {
    EXPECT_TRUE(eventually([&] { return counted(guard, "u") == counts.allowed_by_store; }));
  }
  EXPECT_EQ(immortal_keys(server_), "");
}

INSTANTIATE_TEST_SUITE_P(Network, GuardOnABadNetwork, ::testing::ValuesIn(outages()),
                         [](const auto& tested) { return std::string(tested.param.name); });

class GuardOnAWeakNetwork : public GuardOnABadNetwork {};

// What a store can be reached through in time is none of a policy's business.
TEST_P(GuardOnAWeakNetwork, GoesOnAskingTheStore) {
  Guard guard =
      Guard::open(policy_on(proxy_->port(), {.deadline = "5s"}), {.observer = &heard_}).value();
  proxy_->set(GetParam().faults);
  Tally tally;
  for (int i = 0; i < 20; ++i) (void)check(guard, "count", "u", tally);
  EXPECT_EQ(tally.allowed_by_store, 20u) << heard_.all();
  EXPECT_EQ(tally.broken, 0u);
  EXPECT_EQ(heard_.count(StoreEvent::Kind::away), 0) << heard_.all();
  proxy_->set({});
  EXPECT_EQ(counted(guard, "u"), 20u);
}

INSTANTIATE_TEST_SUITE_P(
    Network, GuardOnAWeakNetwork,
    ::testing::Values(Network{.name = "Delayed", .faults = ProxyFaults::slow(10ms, 10ms)},
                      Network{.name = "DelayedBothWays",
                              .faults = {.request_delay = 5ms, .reply_delay = 5ms}},
                      Network{.name = "OneByteAtATime", .faults = {.between_bytes = 1ms}},
                      Network{.name = "NewConnectionsRefused", .faults = ProxyFaults::refuse()}),
    [](const auto& tested) { return std::string(tested.param.name); });

// Every connection is cut off after its first reply: it never gets through its greeting.
TEST(GuardOnANetwork, ThatCutsEveryConnectionIsAnsweredByPolicy) {
  RedisServer server;
  auto proxy = before(server);
  Heard heard;
  proxy->set({.cut = Cut::after_reply});
  Guard guard = Guard::open(policy_on(proxy->port()), {.observer = &heard}).value();
  EXPECT_EQ(heard.count(StoreEvent::Kind::away_at_start), 1);
  Tally tally;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(check(guard, "login", "u", tally).verdict, Verdict::refused);
  }
  EXPECT_EQ(tally.broken, 0u);
  EXPECT_TRUE(tally.in_time()) << tally.times();
  proxy->set({});
  EXPECT_TRUE(until_store(guard, "login", "u"));
}

// Some replies come and others cut the connection: under load, for a while.
TEST(GuardOnANetwork, ThatCutsSomeConnectionsCountsEachCallOnceAtMost) {
  RedisServer server;
  auto proxy = before(server);
  Heard heard;
  Guard guard = Guard::open(policy_on(proxy->port()), {.observer = &heard}).value();
  ASSERT_TRUE(until_store(guard, "count", "u"));
  Load load(guard, "count", "u", 4);
  for (const Cut cut : {Cut::before_reply, Cut::inside_reply, Cut::after_reply}) {
    proxy->set({.cut = cut, .percent = 20});
    const std::uint64_t from = load.asked();
    EXPECT_TRUE(eventually([&] { return load.asked() >= from + 400; }));
  }
  proxy->set({});
  EXPECT_TRUE(until_store(guard, "count", "u"));
  const Tally tally = load.stop();
  EXPECT_EQ(tally.broken, 0u) << tally.example;
  EXPECT_TRUE(tally.in_time()) << tally.times();
  EXPECT_GT(proxy->counts().resets, 0u);
  const std::uint64_t stored = counted(guard, "u");
  EXPECT_GE(stored, tally.allowed_by_store);
  EXPECT_LE(stored, tally.asked);
  EXPECT_GT(metric(guard, "weir_store_unknown_total{shard=\"0\"}"), 0);
  EXPECT_EQ(immortal_keys(server), "");
}

// The store hangs, and every caller grants less than the deadline: none of them can say that it
// does, and the breaker opens all the same.
TEST(GuardOnANetwork, ThatIsSilentIsFoundOutThoughEveryCallerLeavesEarly) {
  RedisServer server;
  auto proxy = before(server);
  Heard heard;
  Guard guard =
      Guard::open(policy_on(proxy->port(), {.deadline = "200ms"}), {.observer = &heard}).value();
  ASSERT_TRUE(until_store(guard, "login", "u"));
  proxy->set(ProxyFaults::stall());
  Tally tally;
  EXPECT_TRUE(eventually([&] {
    EXPECT_EQ(check(guard, "login", "u", tally, {.deadline = 5ms}).verdict, Verdict::refused);
    return heard.count(StoreEvent::Kind::away) == 1;
  }));
  EXPECT_EQ(tally.broken, 0u);
  EXPECT_TRUE(tally.in_time()) << tally.times();
  proxy->set({});
  EXPECT_TRUE(until_store(guard, "login", "u"));
}

// And callers that grant next to nothing say nothing about a store that answers.
TEST(GuardOnANetwork, ThatIsFineIsNotBlamedForCallersWhoGrantAMillisecond) {
  RedisServer server;
  auto proxy = before(server);
  Heard heard;
  Guard guard =
      Guard::open(policy_on(proxy->port(), {.deadline = "2s"}), {.observer = &heard}).value();
  ASSERT_TRUE(until_store(guard, "count", "u"));
  proxy->set(ProxyFaults::slow(20ms));
  Tally tally;
  for (int i = 0; i < 40; ++i) (void)check(guard, "count", "u", tally, {.deadline = 1ms});
  EXPECT_EQ(tally.verdicts[Verdict::refused], 40u);
  EXPECT_EQ(tally.broken, 0u);
  EXPECT_TRUE(check(guard, "count", "u", tally).allowed());
  EXPECT_EQ(heard.count(StoreEvent::Kind::away), 0) << heard.all();
  const std::uint64_t stored = counted(guard, "u");
  EXPECT_GE(stored, 1u);
  EXPECT_LE(stored, 41u);
}

// A service address moves to the new primary while the old one keeps its connections.
TEST(GuardOnANetwork, WhoseAddressMovesLeavesTheOldPrimaryAtOnce) {
  RedisServer old_primary({.arguments = {"--repl-diskless-sync-delay", "0"}});
  RedisServer replica;
  const std::string old_port = std::to_string(old_primary.port());
  replica.execute({"REPLICAOF", "127.0.0.1", old_port});
  auto proxy = before(old_primary);
  Heard heard;
  Guard guard =
      Guard::open(policy_on(proxy->port(), {.deadline = "200ms"}), {.observer = &heard}).value();
  Tally tally;
  for (int i = 0; i < 10; ++i) (void)check(guard, "count", "u", tally);
  ASSERT_EQ(tally.allowed_by_store, 10u);
  ASSERT_TRUE(eventually([&] {
    return replica.text({"INFO", "replication"}).find("master_link_status:up") !=
               std::string::npos &&
           replica.keys().size() == old_primary.keys().size();
  }));

  Load load(guard, "count", "u", 2);
  replica.execute({"REPLICAOF", "NO", "ONE"});
  old_primary.execute({"REPLICAOF", "127.0.0.1", std::to_string(replica.port())});
  ASSERT_TRUE(proxy->retarget("127.0.0.1:" + std::to_string(replica.port())).has_value());
  // A take, for what only reads is answered by a replica, too.
  const auto counts_there = [&] {
    const Decision decision = check(guard, "count", "u", tally);
    return decision.allowed() && decision.rung == Rung::store;
  };
  ASSERT_TRUE(eventually(counts_there)) << heard.all();
  const Tally seen = load.stop();
  EXPECT_EQ(seen.broken, 0u) << seen.example;
  EXPECT_TRUE(seen.in_time()) << seen.times();
  // It decides at the new one, which has what was replicated; the old one changes nothing more.
  const std::uint64_t stored = counted(guard, "u");
  EXPECT_GE(stored, 10u);
  EXPECT_LE(stored, tally.asked + seen.asked);
  EXPECT_TRUE(eventually(counts_there)) << heard.all();
  EXPECT_EQ(immortal_keys(replica), "");
}

}  // namespace
}  // namespace weir::fault
