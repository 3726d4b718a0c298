#include "store/redis/beat.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "store/redis/script.h"
#include "testing/lua_redis.h"
#include "testing/resp_commands.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using BeatKind = Beat::Kind;
using FleetOutcome = FleetReply::Outcome;

constexpr const char* kKey = "weir:1:{!}members";

class BeatScript : public ::testing::Test {
 protected:
  FleetReply beat(const std::string& name, BeatKind kind = BeatKind::again, std::uint64_t seen = 0,
                  std::uint64_t incarnation = 1, Nanos lease = 15s) {
    std::string bytes;
    append_beat({.kind = kind,
                 .name = name,
                 .incarnation = incarnation,
                 .seen_epoch = seen,
                 .lease = lease},
                kKey, true, bytes);
    testing::RespCommands commands;
    commands.feed(bytes);
    ReplyReader reader;
    reader.feed(redis.execute(*commands.next()));
    EXPECT_EQ(reader.next(), ReplyReader::Next::reply);
    FleetReply fleet;
    EXPECT_TRUE(read_beat(reader.reply(), fleet)) << reader.reply().error();
    return fleet;
  }
  static const FleetMember* find(const FleetReply& fleet, const std::string& name) {
    const auto at = std::find_if(fleet.members.begin(), fleet.members.end(),
                                 [&](const FleetMember& m) { return m.name == name; });
    return at == fleet.members.end() ? nullptr : &*at;
  }
  // Time passes while `name` goes on announcing itself.
  FleetReply pass(const std::string& name, Nanos time) {
    for (Nanos done{0}; done < time; done += 5s) {
      redis.advance(5s);
      beat(name);
    }
    return beat(name);
  }

  testing::LuaRedis redis;
};

TEST_F(BeatScript, BeginsWithItsFirstMember) {
  const FleetReply fleet = beat("a", BeatKind::first);
  EXPECT_EQ(fleet.outcome, FleetOutcome::announced);
  EXPECT_FALSE(fleet.repaired);
  EXPECT_EQ(fleet.now, redis.now());
  ASSERT_EQ(fleet.members.size(), 1U);
  EXPECT_EQ(fleet.members[0].name, "a");
  EXPECT_EQ(fleet.members[0].incarnation, 1U);
  EXPECT_EQ(fleet.members[0].joined_epoch, fleet.epoch);
  EXPECT_EQ(fleet.members[0].lease_until, redis.now() + 15s);
  EXPECT_EQ(fleet.history, fleet.epoch);
}

TEST_F(BeatScript, EveryJoinerMakesAnEpochAndABeatMakesNone) {
  const std::uint64_t first = beat("a", BeatKind::first).epoch;
  EXPECT_EQ(beat("b", BeatKind::first).epoch, first + 1);
  EXPECT_EQ(beat("c", BeatKind::first).epoch, first + 2);
  const FleetReply fleet = beat("a", BeatKind::again, first + 2);
  EXPECT_EQ(fleet.epoch, first + 2);
  EXPECT_EQ(find(fleet, "a")->seen_epoch, first + 2);
  EXPECT_EQ(find(fleet, "a")->joined_epoch, first);
  EXPECT_EQ(find(fleet, "b")->seen_epoch, first + 1) << "what a joiner joined it has read";
}

TEST_F(BeatScript, WhatWasSeenNeverGoesBackAndNeverAhead) {
  const std::uint64_t first = beat("a", BeatKind::first).epoch;
  beat("b", BeatKind::first);
  EXPECT_EQ(find(beat("a", BeatKind::again, first + 1), "a")->seen_epoch, first + 1);
  EXPECT_EQ(find(beat("a", BeatKind::again, first), "a")->seen_epoch, first + 1);
  beat("c", BeatKind::first);
  EXPECT_EQ(find(beat("a", BeatKind::again, first + 50), "a")->seen_epoch, first + 1)
      << "an epoch that never was belongs to another history";
}

TEST_F(BeatScript, ASilentMemberIsDroppedTenMinutesAfterItsLease) {
  beat("a", BeatKind::first);
  beat("b", BeatKind::first);
  EXPECT_NE(find(pass("a", 10min + 10s), "b"), nullptr);
  EXPECT_EQ(find(pass("a", 10s), "b"), nullptr);
  EXPECT_GT(beat("b").epoch, beat("a").epoch - 1) << "and comes back as a joiner";
  EXPECT_EQ(find(beat("a"), "b")->joined_epoch, beat("a").epoch);
}

TEST_F(BeatScript, TimeInWhichNobodyAnnouncedAnythingProvesNothing) {
  beat("a", BeatKind::first);
  beat("b", BeatKind::first);
  redis.advance(3h);
  const FleetReply fleet = beat("a");
  ASSERT_NE(find(fleet, "b"), nullptr);
  EXPECT_EQ(find(fleet, "b")->lease_until, redis.now() + 15s);
}

TEST_F(BeatScript, AClockThatIsSetDropsNobodyAndLocksNobodyIn) {
  beat("a", BeatKind::first);
  beat("b", BeatKind::first);
  redis.advance(-2h);
  EXPECT_LE(find(beat("a"), "b")->lease_until, redis.now() + kLongestLease);
  redis.advance(5h);
  EXPECT_NE(find(beat("a"), "b"), nullptr);
  EXPECT_EQ(find(pass("a", 10min + 20s), "b"), nullptr);
}

TEST_F(BeatScript, ARestartTakesItsNameOverAndTheOldProcessIsTold) {
  const std::uint64_t first = beat("a", BeatKind::first, 0, 7).epoch;
  EXPECT_EQ(beat("a", BeatKind::first, 0, 8).outcome, FleetOutcome::announced);
  const FleetReply old = beat("a", BeatKind::again, 0, 7);
  EXPECT_EQ(old.outcome, FleetOutcome::ousted);
  EXPECT_EQ(find(old, "a")->incarnation, 8U);
  EXPECT_EQ(find(old, "a")->joined_epoch, first);
  EXPECT_EQ(beat("a", BeatKind::again, 0, 8).outcome, FleetOutcome::announced);
}

TEST_F(BeatScript, WhoLeavesIsGoneAtOnceUnlessItsNameWasTakenOver) {
  beat("a", BeatKind::first);
  beat("b", BeatKind::first, 0, 7);
  EXPECT_EQ(beat("b", BeatKind::leave, 0, 6).outcome, FleetOutcome::ousted);
  EXPECT_NE(find(beat("a"), "b"), nullptr);
  EXPECT_EQ(beat("b", BeatKind::leave, 0, 7).outcome, FleetOutcome::left);
  EXPECT_EQ(find(beat("a"), "b"), nullptr);
}

TEST_F(BeatScript, IsBoundedAndSaysWhenItIsFull) {
  for (std::size_t i = 0; i < kMaxMembers; ++i) {
    ASSERT_EQ(beat("w" + std::to_string(i), BeatKind::first).outcome, FleetOutcome::announced);
  }
  const FleetReply fleet = beat("late", BeatKind::first);
  EXPECT_EQ(fleet.outcome, FleetOutcome::full);
  EXPECT_EQ(fleet.members.size(), kMaxMembers);
  EXPECT_EQ(beat("w0").outcome, FleetOutcome::announced);
  EXPECT_EQ(beat("w1", BeatKind::leave).outcome, FleetOutcome::left);
  EXPECT_EQ(beat("late", BeatKind::first).outcome, FleetOutcome::announced);
}

TEST_F(BeatScript, ItsKeyHasATimeToLive) {
  beat("a", BeatKind::first);
  EXPECT_EQ(redis.execute({"PTTL", kKey}), ":86400000\r\n");
}

TEST_F(BeatScript, WhateverElseStandsAtTheKeyIsThrownAway) {
  beat("a", BeatKind::first);
  beat("b", BeatKind::first);
  const std::string good = std::get<std::string>(redis.keys().find(kKey)->second.data);
  std::vector<std::string> planted{"",         "x",         "hello world",          "m",
                                   good + "x", good + '\0', std::string(5'000, 'm')};
  for (std::size_t n = 1; n < good.size(); ++n) {
    // A value cut between two members is one that fewer members wrote.
    if (n != 19 && n != 19 + 28) planted.push_back(good.substr(0, n));
  }
  std::string twice = good;
  planted.push_back(twice + good.substr(19));
  std::string far = good;
  far.replace(7, 6, "\xff\xff\xff\xff\xff\xff");
  planted.push_back(far);
  for (const std::string& value : planted) {
    redis.execute({"SET", kKey, value});
    const FleetReply fleet = beat("a");
    EXPECT_TRUE(fleet.repaired) << value;
    EXPECT_EQ(fleet.outcome, FleetOutcome::announced);
    EXPECT_EQ(fleet.members.size(), 1U);
    EXPECT_FALSE(beat("a").repaired);
    EXPECT_EQ(redis.execute({"PTTL", kKey}), ":86400000\r\n");
  }
  redis.execute({"DEL", kKey});
  redis.execute({"RPUSH", kKey, "a", "b"});
  EXPECT_TRUE(beat("a").repaired);
}

TEST_F(BeatScript, EveryCutAndEveryFlippedByteIsReadOrRepairedButNeverAnError) {
  beat("a", BeatKind::first);
  beat("bb", BeatKind::first);
  const std::string good = std::get<std::string>(redis.keys().find(kKey)->second.data);
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ flip);
      redis.execute({"SET", kKey, bad});
      const FleetReply fleet = beat("a", BeatKind::first);
      EXPECT_EQ(fleet.outcome, FleetOutcome::announced);
      for (const FleetMember& member : fleet.members) {
        EXPECT_LE(member.lease_until, redis.now() + kLongestLease);
        EXPECT_LE(member.joined_epoch, fleet.epoch);
      }
    }
  }
}

TEST_F(BeatScript, AHistoryThatBeginsAgainSharesNoEpochWithTheOneBefore) {
  beat("a", BeatKind::first);
  const FleetReply before = beat("b", BeatKind::first);
  redis.advance(2s);
  redis.execute({"DEL", kKey});
  const FleetReply after = beat("a", BeatKind::again, before.epoch);
  EXPECT_NE(after.history, before.history);
  EXPECT_GT(after.history, before.epoch);
}

}  // namespace
}  // namespace weir::store::redis
