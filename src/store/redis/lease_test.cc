#include "store/redis/lease.h"

#include <gtest/gtest.h>

#include "testing/lease_rig.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using LeaseKind = LeaseAction::Kind;
using LeaseOutcome = LeaseReply::Outcome;
using testing::LeaseRig;

TEST(LeaseScript, GivesWhatTheLimitHolds) {
  LeaseRig rig;
  const LeaseReply first = rig.acquire("a");
  EXPECT_EQ(first.outcome, LeaseOutcome::done);
  EXPECT_EQ(first.left, Nanos(1s));
  EXPECT_EQ(rig.acquire("b").held, 2U);
  const LeaseReply full = rig.acquire("c");
  EXPECT_EQ(full.outcome, LeaseOutcome::full);
  EXPECT_EQ(full.next_end, Nanos(1s));
  EXPECT_EQ(rig.stored(), 2U);
}

TEST(LeaseScript, ACrashedHolderFreesItsUnitsWhenItsLeaseEndsAndNotBefore) {
  // apisix, Redisson: plain counters that never came down after kill -9
  LeaseRig rig;
  rig.acquire("a");
  rig.acquire("b");
  rig.redis.advance(999ms);
  EXPECT_EQ(rig.acquire("c").outcome, LeaseOutcome::full);
  rig.redis.advance(1ms);
  const LeaseReply after = rig.acquire("c");
  EXPECT_EQ(after.outcome, LeaseOutcome::done);
  EXPECT_EQ(after.ended, 2U);
  EXPECT_EQ(after.held, 1U);
}

TEST(LeaseScript, OneThatIsOverDoesNotRiseAgain) {
  // berater: renewing a reclaimed lease must be refused
  LeaseRig rig;
  rig.acquire("a");
  rig.redis.advance(1s);
  EXPECT_EQ(rig.renew("a").outcome, LeaseOutcome::none);
  EXPECT_EQ(rig.renew("never").outcome, LeaseOutcome::none);
  EXPECT_EQ(rig.stored(), 0U);
}

TEST(LeaseScript, ReleasingTwiceFreesNobodyElses) {
  LeaseRig rig;
  rig.acquire("a");
  rig.acquire("b");
  EXPECT_EQ(rig.release("a").outcome, LeaseOutcome::done);
  EXPECT_EQ(rig.release("a").outcome, LeaseOutcome::none);
  EXPECT_EQ(rig.acquire("c").outcome, LeaseOutcome::done);
  EXPECT_EQ(rig.acquire("d").outcome, LeaseOutcome::full);
}

TEST(LeaseScript, AskingAgainWithTheSameIdTakesNothingTwice) {
  LeaseRig rig;
  const LeaseReply first = rig.acquire("a");
  rig.redis.advance(100ms);
  const LeaseReply again = rig.acquire("a");
  EXPECT_EQ(again.outcome, LeaseOutcome::stood);
  EXPECT_EQ(again.fence, first.fence);
  EXPECT_EQ(again.left, Nanos(900ms));
  EXPECT_EQ(again.held, 1U);
  EXPECT_EQ(rig.acquire("a", 2).outcome, LeaseOutcome::held_otherwise);
  rig.numbers.limit = 1;
  EXPECT_EQ(rig.acquire("a").outcome, LeaseOutcome::stood) << "the limit was lowered since";
  EXPECT_EQ(rig.acquire("b", 2).outcome, LeaseOutcome::above_limit);
}

TEST(LeaseScript, NoneIsHeldForLongerThanTheLongest) {
  LeaseRig rig;
  rig.acquire("a");
  for (int i = 0; i < 4; ++i) {
    rig.redis.advance(700ms);
    EXPECT_EQ(rig.renew("a").outcome, LeaseOutcome::done) << i;
  }
  EXPECT_EQ(rig.renew("a").left, Nanos(200ms));
  rig.redis.advance(200ms);
  EXPECT_EQ(rig.renew("a").outcome, LeaseOutcome::none);
}

TEST(LeaseScript, EveryFenceIsLargerThanAllBefore) {
  LeaseRig rig;
  std::uint64_t last = 0;
  for (int i = 0; i < 50; ++i) {
    const LeaseReply reply = rig.acquire("id" + std::to_string(i));
    ASSERT_EQ(reply.outcome, LeaseOutcome::done);
    EXPECT_GT(reply.fence, last);
    last = reply.fence;
    rig.release("id" + std::to_string(i));
  }
  // Also than those of a record that is gone, a moment later.
  rig.redis.execute({"FLUSHALL"});
  rig.redis.advance(1ms);
  EXPECT_GT(rig.acquire("a").fence, last);
}

TEST(LeaseScript, WhatWasGivenWithoutTheStoreStandsAboveTheLimitAndIsCountedOnce) {
  LeaseRig rig;
  rig.acquire("a");
  rig.acquire("b");
  const LeaseAction kept{.kind = LeaseKind::keep,
                         .id = "c",
                         .weight = 1,
                         .fence = 7,
                         .held_for = 400ms,
                         .left = 600ms};
  EXPECT_EQ(rig.run(kept).held, 3U);
  EXPECT_EQ(rig.run(kept).outcome, LeaseOutcome::stood);
  EXPECT_EQ(rig.run(kept).held, 3U);
  EXPECT_EQ(rig.acquire("d").outcome, LeaseOutcome::full);
  rig.release("a");
  EXPECT_EQ(rig.acquire("d").outcome, LeaseOutcome::full) << "two stand, and two is the limit";
  rig.redis.advance(600ms);
  EXPECT_EQ(rig.acquire("d").outcome, LeaseOutcome::done) << "what was kept has ended";
}

TEST(LeaseScript, KeepingOneThatStandsMakesItLastAndNeverShorter) {
  LeaseRig rig;
  rig.acquire("a");
  EXPECT_EQ(rig.run({.kind = LeaseKind::keep, .id = "a", .left = 100ms}).left, Nanos(1s));
  EXPECT_EQ(rig.run({.kind = LeaseKind::keep, .id = "a", .left = 2s}).left, Nanos(2s));
  EXPECT_EQ(rig.run({.kind = LeaseKind::keep, .id = "a", .left = 9s}).left, Nanos(3s));
  EXPECT_EQ(rig.run({.kind = LeaseKind::keep, .id = "over", .left = 0s}).outcome,
            LeaseOutcome::none);
}

TEST(LeaseScript, EveryKeyHasATimeToLive) {
  LeaseRig rig;
  rig.acquire("a");
  for (const auto& [key, value] : rig.redis.keys()) {
    ASSERT_TRUE(value.expires_at) << key;
    EXPECT_GT(*value.expires_at, rig.redis.now() + 3s) << key;
  }
}

TEST(LeaseScript, OneOfTheTwoKeysThatIsGoneIsMadeAgainOrMissedByNobody) {
  LeaseRig rig;
  rig.acquire("a");
  rig.redis.execute({"DEL", std::string(LeaseRig::kKey) + "!ends"});
  rig.acquire("b");
  EXPECT_EQ(rig.acquire("c").outcome, LeaseOutcome::full);
  rig.redis.advance(1s);
  EXPECT_EQ(rig.acquire("c").held, 1U) << "both have ended";
  rig.redis.execute({"DEL", LeaseRig::kKey});
  EXPECT_EQ(rig.acquire("d").held, 1U);
  EXPECT_EQ(rig.acquire("e").held, 2U);
}

TEST(LeaseScript, WhatIsDamagedIsThrownAwayAndSaid) {
  for (const std::string& key :
       {std::string(LeaseRig::kKey), LeaseRig::kKey + std::string("!ends")}) {
    LeaseRig rig;
    rig.acquire("a");
    rig.redis.execute({"SET", key, "x"});
    const LeaseReply reply = rig.acquire("b");
    EXPECT_TRUE(reply.repaired) << key;
    EXPECT_EQ(reply.outcome, LeaseOutcome::done);
    EXPECT_EQ(reply.held, key == LeaseRig::kKey ? 1U : 2U);
  }
  LeaseRig rig;
  rig.acquire("a");
  rig.redis.execute({"HSET", LeaseRig::kKey, "b", "short"});
  EXPECT_TRUE(rig.acquire("c").repaired);
  EXPECT_EQ(rig.acquire("d").outcome, LeaseOutcome::full);
}

TEST(LeaseScript, AClockThatWasSetBackKeepsNoLeaseForADay) {
  LeaseRig rig;
  rig.acquire("a");
  rig.acquire("b");
  rig.redis.advance(-24h);
  EXPECT_EQ(rig.acquire("c").outcome, LeaseOutcome::full);
  EXPECT_EQ(rig.acquire("c").next_end, Nanos(1s));
  rig.redis.advance(1s);
  EXPECT_EQ(rig.acquire("c").outcome, LeaseOutcome::done);
}

TEST(LeaseScript, ARefusalWritesNothing) {
  LeaseRig rig;
  rig.acquire("a");
  rig.acquire("b");
  const auto expires = [&] { return rig.redis.keys().at(LeaseRig::kKey).expires_at; };
  const auto before = expires();
  rig.redis.advance(100ms);
  rig.acquire("c");
  rig.renew("c");
  rig.release("c");
  EXPECT_EQ(expires(), before);
}

TEST(Lease, RefusesAReplyThatIsNone) {
  ReplyReader reader;
  reader.feed("*2\r\n$1\r\na\r\n$1\r\nb\r\n");
  ASSERT_EQ(reader.next(), ReplyReader::Next::reply);
  LeaseReply reply;
  EXPECT_FALSE(read_lease(reader.reply(), reply));
}

}  // namespace
}  // namespace weir::store::redis
