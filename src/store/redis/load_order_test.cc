// Which numbers hold for a counter that workers know different ones of: those of the later load, by
// a clock that nobody's own can run ahead of.

#include <gtest/gtest.h>

#include <vector>

#include "store/redis/ask_codec.h"
#include "testing/lua_redis.h"
#include "testing/redis_rig.h"
#include "testing/resp_commands.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using testing::RigRule;

constexpr Instant kNow{1'700'000'040s};

struct Form {
  const char* name;
  Algorithm algorithm;
  AskForm form;  // of the ask that writes first
};

class LoadOrder : public ::testing::TestWithParam<Form> {
 protected:
  RigRule rule(std::uint64_t limit) const { return {1, limit, 60s, GetParam().algorithm}; }

  // Charges one unit; under how many the store decided it.
  std::uint32_t ask(const RigRule& rule, Instant loaded_at) {
    std::vector<Counter> counters{rule.counter(1)};
    if (GetParam().form == AskForm::plain) counters.push_back(beside_.counter(1));
    AskOptions options;
    options.loaded_at = loaded_at;
    if (GetParam().form == AskForm::full) options.now = redis_.now();
    const AskTimes times{.not_after = redis_.now() + 20ms, .estimate = redis_.now()};
    std::string command;
    const AskForm form = append_ask(counters, options, times, keys_, true, command);
    EXPECT_EQ(form, GetParam().form);
    testing::RespCommands commands;
    commands.feed(command);
    reader_.reset();
    EXPECT_TRUE(reader_.feed(redis_.execute(commands.next().value())));
    EXPECT_EQ(reader_.next(), ReplyReader::Next::reply);
    EXPECT_EQ(reader_.reply().error(), "");
    std::vector<CounterReply> replies;
    const DecodedAsk decoded =
        decode_ask(reader_.reply(), form, counters, options, times, redis_.now(), replies);
    EXPECT_EQ(decoded.outcome, AskOutcome::decided);
    EXPECT_FALSE(decoded.disagreed);
    return replies[0].numbers.limit;
  }

  testing::LuaRedis redis_{kNow};
  KeySpace keys_ = KeySpace::make("weir", "").value();
  ReplyReader reader_;
  const RigRule beside_{2, 100, 60s, GetParam().algorithm};
};

TEST_P(LoadOrder, TheLaterLoadHolds) {
  EXPECT_EQ(ask(rule(9), kNow - 10s), 9u);
  EXPECT_EQ(ask(rule(6), kNow - 5s), 6u);
  EXPECT_EQ(ask(rule(9), kNow - 10s), 6u);
  EXPECT_EQ(ask(rule(6), kNow - 5s), 6u);
}

// It held for as long as the clock of its worker was ahead, whatever the others loaded since.
TEST_P(LoadOrder, OneOfAClockThatRunsAheadCountsAsOfTheTimeItIsTold) {
  for (int i = 0; i < 2; ++i) EXPECT_EQ(ask(rule(9), kNow + 24h), 9u);
  redis_.advance(5s);
  EXPECT_EQ(ask(rule(6), kNow + 4s), 6u) << "loaded since";
  EXPECT_EQ(ask(rule(6), kNow + 4s), 6u);
  redis_.advance(5s);
  EXPECT_EQ(ask(rule(7), kNow + 9s), 7u);
}

// What was written before the store's clock was set back is of no order any more.
TEST_P(LoadOrder, OneThatIsKeptAndLiesAheadIsNotBelieved) {
  redis_.set_expiry(false);
  redis_.set_now(kNow + 24h);
  EXPECT_EQ(ask(rule(9), kNow + 23h), 9u);
  redis_.set_now(kNow);
  EXPECT_EQ(ask(rule(6), kNow - 5s), 6u);
  EXPECT_EQ(ask(rule(9), kNow - 10s), 6u) << "and from then on there is one again";
}

// Clocks of one fleet disagree by a little: nothing goes back and forth for that.
TEST_P(LoadOrder, OneALittleAheadIsAsLaterAsItSays) {
  EXPECT_EQ(ask(rule(6), kNow + 300ms), 6u);
  EXPECT_EQ(ask(rule(9), kNow - 1s), 6u);
  redis_.advance(1s);
  EXPECT_EQ(ask(rule(9), kNow - 1s), 6u);
}

INSTANTIATE_TEST_SUITE_P(
    EveryWay, LoadOrder,
    ::testing::Values(Form{"brief", Algorithm::gcra, AskForm::brief},
                      Form{"plain_gcra", Algorithm::gcra, AskForm::plain},
                      Form{"plain_window", Algorithm::fixed_window, AskForm::plain},
                      Form{"gcra", Algorithm::gcra, AskForm::full},
                      Form{"fixed_window", Algorithm::fixed_window, AskForm::full},
                      Form{"sliding_window", Algorithm::sliding_window, AskForm::full},
                      Form{"sliding_log", Algorithm::sliding_log, AskForm::full}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace weir::store::redis
