#include "drill/target/conduct.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::drill {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using End = HttpOutcome::End;

constexpr StatedLimit kLimit{.units = 20, .period = 60s};

Tally& add(Tally& tally, int calls, int status, Nanos each, End end = End::answered) {
  for (int i = 0; i < calls; ++i) {
    tally.add({.answered = MonoTime{} + each, .end = end, .status = status});
  }
  return tally;
}

class ConductTest : public ::testing::Test {
 protected:
  ConductTest() { add(calm_, 50, 200, 2ms); }
  Judgement judged(bool calm = false, bool gone = true) {
    return judge({.steady = steady_,
                  .hostile = hostile_,
                  .calm = calm_,
                  .length = 5s,
                  .is_calm = calm,
                  .store_gone = gone,
                  .limit_seen = limit_seen_},
                 kLimit);
  }
  // Of hostile calls so many pass, and the rest are told 429.
  void hostile(int passed, int limited) { add(add(hostile_, passed, 200, 2ms), limited, 429, 2ms); }
  Tally steady_, hostile_, calm_;
  bool limit_seen_ = true;
};

TEST_F(ConductTest, AWindowOnEitherSideIsAllowedFor) {
  EXPECT_EQ(kLimit.most_in(5s), 40u);
  EXPECT_EQ((StatedLimit{10, 1s}.most_in(3s)), 50u);
}

TEST_F(ConductTest, OpenIsMoreThanAnyLimiterLetsPass) {
  add(steady_, 50, 200, 3ms);
  hostile(41, 0);
  EXPECT_EQ(judged().conduct, Conduct::open);
  EXPECT_EQ(judged().words, "fails open at once: 41 of 41 calls of one key passed");
  EXPECT_THAT(
      judged(true).words,
      StartsWith("does not limit: 41 of 41 calls of one key passed, where the limit is 20"));
}

TEST_F(ConductTest, OpenAfterATimeoutNamesTheTime) {
  add(steady_, 50, 200, 10'200ms);
  hostile(60, 0);
  EXPECT_THAT(judged().words, StartsWith("fails open after 10.2 s a request"));
  EXPECT_GE(judged().typical, 10'200ms);
}

TEST_F(ConductTest, WhoStillLimitsNeverNoticedOrIsSlowOrDoesWithoutTheStore) {
  add(steady_, 50, 200, 2ms);
  hostile(20, 40);
  EXPECT_EQ(judged().conduct, Conduct::limits);
  EXPECT_EQ(judged().words, "keeps limiting without the store: 20 of 60 calls of one key passed");
  EXPECT_THAT(judged(false, false).words, StartsWith("never noticed"));
  EXPECT_THAT(judged(true).words, StartsWith("limits: 20 of 60"));
  steady_ = {};
  add(steady_, 50, 200, 60ms);
  EXPECT_THAT(judged(false, false).words, StartsWith("limits, but after 60 ms a request"));
  steady_ = {};
  add(steady_, 50, 200, 4s);
  EXPECT_EQ(judged().conduct, Conduct::hangs);
  EXPECT_THAT(judged().words, StartsWith("waits for the store to come back, 4 s a request"));
}

TEST_F(ConductTest, WhereTheLimitCouldNotBeReachedItSaysSo) {
  add(steady_, 50, 200, 2ms);
  hostile(30, 0);
  EXPECT_EQ(judged().conduct, Conduct::admits);
  EXPECT_THAT(judged().words, HasSubstr("whether it limits could not be seen"));
}

TEST_F(ConductTest, ALimitThatWasNeverSeenDoesNotFailOpen) {
  add(steady_, 50, 200, 2ms);
  hostile(60, 0);
  limit_seen_ = false;
  EXPECT_EQ(judged().conduct, Conduct::admits);
  EXPECT_THAT(judged().words, HasSubstr("no limit was seen even while the store answered"));
}

TEST_F(ConductTest, TellsEveryWayOfTurningCallersAway) {
  struct Row {
    int status;
    End end;
    Nanos each;
    Conduct conduct;
    const char* words;
  };
  for (const Row& row : {
           Row{503, End::answered, 2ms, Conduct::closed, "fails closed, with 503, at once"},
           Row{429, End::answered, 300ms, Conduct::as_limit,
               "fails closed after 300 ms a request, and calls it 429: as if callers had asked too "
               "often"},
           Row{500, End::answered, 2ms, Conduct::errors, "turns into 500s at once"},
           Row{502, End::answered, 5s, Conduct::errors, "turns into 502s after 5 s a request"},
           Row{401, End::answered, 2ms, Conduct::other, "answers 401 at once"},
           Row{0, End::timed_out, 15s, Conduct::hangs, "hangs: no answer within 15 s"},
           Row{0, End::refused, 1ms, Conduct::cut,
               "takes no calls: connections are refused or cut"},
           Row{0, End::cut, 1ms, Conduct::cut, "takes no calls: connections are refused or cut"},
       }) {
    steady_ = {};
    add(steady_, 50, row.status, row.each, row.end);
    EXPECT_EQ(judged().conduct, row.conduct) << row.words;
    EXPECT_EQ(judged().words, row.words);
  }
}

TEST_F(ConductTest, NamesWhatElseHappened) {
  add(add(steady_, 80, 503, 2ms), 20, 0, 15s, End::timed_out);
  EXPECT_EQ(judged().words, "fails closed, with 503, at once (besides: 20 % no answer)");
  steady_ = {};
  add(add(steady_, 50, 200, 2ms), 50, 500, 2ms);
  EXPECT_EQ(judged().conduct, Conduct::mixed);
  EXPECT_EQ(judged().words, "is of two minds: 50 % allowed, 50 % 500");
}

}  // namespace
}  // namespace weir::drill
