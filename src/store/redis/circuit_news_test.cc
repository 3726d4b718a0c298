#include <gtest/gtest.h>

#include <string>

#include "testing/circuit_rig.h"

// What the script of shared breakers publishes, and the note that goes with a mode.

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using testing::CircuitRig;
using CircuitKind = CircuitAction::Kind;
using CircuitOutcome = CircuitReply::Outcome;
using Flag = CircuitAction::Flag;

TEST(CircuitScript, PublishesEveryChangeOfStateAndNothingElse) {
  CircuitRig rig;
  rig.vote(1, false);
  EXPECT_EQ(rig.redis.published(), 0U) << "a vote is nobody's news";
  rig.run({.kind = CircuitKind::trip, .who = 1, .epoch = rig.read().record.epoch});
  EXPECT_EQ(rig.redis.published(), 1U);
  EXPECT_EQ(rig.probe(1).outcome, CircuitOutcome::no_probe);
  EXPECT_EQ(rig.redis.published(), 1U) << "nor is a denial";
  rig.force(Flag::forced_open);
  EXPECT_EQ(rig.redis.published(), 2U);
  rig.read();
  EXPECT_EQ(rig.redis.published(), 2U);
}

TEST(CircuitScript, DoesItsWorkWhereItMayNotPublish) {
  CircuitRig rig;
  rig.redis.fail_publish_with("NOPERM this user has no permissions to run the 'publish' command");
  rig.vote(1, false);
  const CircuitReply reply =
      rig.run({.kind = CircuitKind::trip, .who = 1, .epoch = rig.read().record.epoch});
  EXPECT_EQ(reply.outcome, CircuitOutcome::done);
  EXPECT_EQ(rig.read().record.state, CircuitRecord::State::open);
  EXPECT_TRUE(rig.redis.keys().contains(CircuitRig::kChanges)) << "who looks finds it";
}

TEST(CircuitScript, KeepsWhoSetAModeAndWhyThroughVotesAndUntilItEnds) {
  CircuitRig rig;
  rig.run({.kind = CircuitKind::force,
           .flag = Flag::forced_open,
           .lasts = 10s,
           .by = "ada",
           .reason = "they move"});
  rig.vote(1, true);
  rig.probe(2);
  const CircuitRecord record = rig.read().record;
  EXPECT_EQ(record.by, "ada");
  EXPECT_EQ(record.reason, "they move");
  rig.redis.set_now(rig.read().now + 10s);
  rig.vote(1, false);
  EXPECT_EQ(rig.read().record.mode, CircuitRecord::Mode::automatic);
  EXPECT_EQ(rig.read().record.by, "");
  EXPECT_EQ(rig.read().record.reason, "");
}

TEST(CircuitScript, KeepsANoteOfAnyBytesAndLength) {
  CircuitRig rig;
  const std::string by(64, '\xff');
  const std::string reason = std::string(100, '\0') + std::string(100, 'd');
  rig.vote(7, false);
  rig.run({.kind = CircuitKind::force, .flag = Flag::forced_closed, .by = by, .reason = reason});
  EXPECT_EQ(rig.read().record.by, by);
  EXPECT_EQ(rig.read().record.reason, reason);
  rig.run({.kind = CircuitKind::force, .flag = Flag::forced_open, .by = {}, .reason = "only why"});
  EXPECT_EQ(rig.read().record.by, "");
  EXPECT_EQ(rig.read().record.reason, "only why");
  rig.force(Flag::automatic);
  EXPECT_EQ(rig.read().record.reason, "");
}

}  // namespace
}  // namespace weir::store::redis
