#include "ladder/shard_ladder.h"

#include <gtest/gtest.h>

#include <array>

namespace weir::ladder {
namespace {

using limit::Numbers;
using limit::Outcome;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using store::Counter;
using store::Finding;

Numbers numbers(std::uint64_t limit, Algorithm algorithm = Algorithm::fixed_window) {
  return Numbers::make({.algorithm = algorithm, .limit = limit, .period = {.length = minutes(1)}})
      .value();
}

class ShardLadderTest : public ::testing::Test {
 protected:
  Moment now() const {
    return {Instant{seconds(1'700'000'040)} + after_, MonoTime{seconds(5'000)} + after_};
  }

  void open_breaker() {
    for (int i = 0; i < 5; ++i)
      (void)ladder_.breaker().on_failure(ladder_.breaker().generation(), milliseconds(1),
                                         now().mono);
  }
  void know(std::uint32_t used) {
    limit::State state;
    if (used > 0) state = limit::take(ten_, state, now().store, used).next;
    ladder_.known().learn(counter(), state, now().store, now().mono);
  }
  Counter counter(std::uint64_t cost = 1) const {
    return {.numbers = &ten_, .identity = 1, .digest = {1, 1}, .cost = cost};
  }

  // What a request that meets `ten_` is answered; absent: the store is to be asked.
  std::optional<LadderVerdict> ask(FailurePolicy policy, const Numbers* ceiling = nullptr,
                                   std::uint64_t cost = 1) {
    const std::array counters{counter(cost)};
    LadderVerdict verdict;
    const LadderRequest asked = request(counters, policy, ceiling, cost);
    switch (ladder_.begin(asked, now(), findings_, verdict)) {
      case ShardLadder::Begin::ask:
        return std::nullopt;
      case ShardLadder::Begin::away:
        return ladder_.without(asked, now(), findings_);
      case ShardLadder::Begin::decided:
        break;
    }
    return verdict;
  }
  LadderRequest request(std::span<const Counter> counters, FailurePolicy policy,
                        const Numbers* ceiling = nullptr, std::uint64_t cost = 1) {
    return {.counters = counters,
            .cost = cost,
            .when_store_fails = policy,
            .ceiling = &ceiling_,
            .ceiling_numbers = ceiling};
  }

  Nanos after_{0};
  Numbers ten_ = numbers(10);
  Ceiling ceiling_;
  std::array<Finding, 4> findings_;
  ShardLadder ladder_{{.breaker = {.jitter_percent = 0}, .known_keys = 1'000, .random_seed = 7}};
};

TEST_F(ShardLadderTest, AsksTheStoreWhileItAnswers) {
  EXPECT_FALSE(ask(FailurePolicy::closed));
}

TEST_F(ShardLadderTest, ClosedRefusesWithTheTimeToTheNextProbe) {
  open_breaker();
  const auto verdict = ask(FailurePolicy::closed);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->verdict, Verdict::refused);
  EXPECT_EQ(verdict->rung, Rung::policy);
  EXPECT_EQ(verdict->reason, Reason::store_unavailable);
  EXPECT_EQ(verdict->retry_after, Nanos(milliseconds(500)));
  EXPECT_FALSE(verdict->numbers_known) << "numbers nobody knows must not be shown";
}

TEST_F(ShardLadderTest, ClosedAnswersLimitedWhereAKnownDenialStillHolds) {
  know(10);
  open_breaker();
  after_ = seconds(20);
  const auto verdict = ask(FailurePolicy::closed);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->verdict, Verdict::limited);
  EXPECT_EQ(verdict->rung, Rung::known);
  EXPECT_EQ(verdict->retry_after, Nanos(seconds(40)));
  after_ = seconds(60);
  EXPECT_EQ(ask(FailurePolicy::closed)->verdict, Verdict::refused);
}

// Nobody is to wait for what never comes.
TEST_F(ShardLadderTest, ACostAboveTheBurstOfAKnownKeyNeverFits) {
  know(1);
  for (const bool away : {false, true}) {
    if (away) open_breaker();
    const auto verdict = ask(FailurePolicy::closed, nullptr, 11);
    ASSERT_TRUE(verdict);
    EXPECT_EQ(verdict->verdict, Verdict::limited);
    EXPECT_EQ(verdict->rung, Rung::known);
    EXPECT_EQ(verdict->reason, Reason::cost_exceeds_burst);
    EXPECT_EQ(verdict->retry_after, std::nullopt);
  }
}

// In whichever order they stand: limited, else refused.
TEST_F(ShardLadderTest, ARequestIsLimitedWhereOnePartIsUsedUpAndAnotherIsNone) {
  ladder_.divide(Division::fixed(2, 0));
  open_breaker();
  for (int i = 0; i < 5; ++i) ASSERT_EQ(ask(FailurePolicy::bounded)->rung, Rung::share);
  const Numbers two = numbers(2);  // a part of 1
  const Counter used_up = counter(2);
  const Counter too_small{.numbers = &two, .identity = 2, .digest = {2, 2}, .cost = 2};
  for (const std::array<Counter, 2>& counters :
       {std::array{used_up, too_small}, std::array{too_small, used_up}}) {
    const LadderVerdict verdict =
        ladder_.without(request(counters, FailurePolicy::bounded, nullptr, 2), now(), findings_);
    EXPECT_EQ(verdict.verdict, Verdict::limited);
    EXPECT_EQ(verdict.reason, Reason::over_share);
    EXPECT_EQ(verdict.retry_after, Nanos(minutes(1)));
  }
}

TEST_F(ShardLadderTest, AKnownDenialIsAnsweredWithoutAskingForASecond) {
  know(10);
  EXPECT_EQ(ask(FailurePolicy::closed)->rung, Rung::known);
  after_ = milliseconds(1'001);
  EXPECT_FALSE(ask(FailurePolicy::closed)) << "older: the store is asked";
}

TEST_F(ShardLadderTest, BoundedServesItsPartThenLimits) {
  ladder_.divide(Division::fixed(2, 0));
  open_breaker();
  for (int i = 0; i < 5; ++i) {
    const auto verdict = ask(FailurePolicy::bounded);
    ASSERT_EQ(verdict->verdict, Verdict::allowed) << i;
    EXPECT_EQ(verdict->rung, Rung::share);
    EXPECT_FALSE(verdict->unenforced);
  }
  const auto verdict = ask(FailurePolicy::bounded);
  EXPECT_EQ(verdict->verdict, Verdict::limited);
  EXPECT_EQ(verdict->rung, Rung::share);
  EXPECT_EQ(verdict->reason, Reason::over_share);
  EXPECT_EQ(verdict->retry_after, Nanos(minutes(1)));
}

TEST_F(ShardLadderTest, BoundedRefusesWhereThisWorkerHasNoPart) {
  open_breaker();
  EXPECT_EQ(ask(FailurePolicy::bounded)->verdict, Verdict::refused)
      << "it has never read the members";
  ladder_.divide(Division::fixed(20, std::nullopt));
  EXPECT_EQ(ask(FailurePolicy::bounded)->verdict, Verdict::refused)
      << "ten units over twenty workers";
  ladder_.divide(Division::fixed(2, 0));
  const auto above = ask(FailurePolicy::bounded, nullptr, 6);
  EXPECT_EQ(above->verdict, Verdict::refused) << "a cost above the part";
  EXPECT_EQ(above->reason, Reason::over_share);
  EXPECT_EQ(above->rung, Rung::policy);
  EXPECT_TRUE(above->retry_after);
}

// As a cost above the whole limit is over it, where it reports what was used.
TEST_F(ShardLadderTest, ALateReportAboveThePartIsOverItAndUsesItUp) {
  ladder_.divide(Division::fixed(2, 0));
  open_breaker();
  std::array counters{counter(30)};
  LadderRequest late = request(counters, FailurePolicy::bounded, nullptr, 30);
  late.late = 1;
  LadderVerdict verdict = ladder_.without(late, now(), findings_);
  EXPECT_EQ(verdict.verdict, Verdict::limited);
  EXPECT_EQ(verdict.rung, Rung::share);
  EXPECT_EQ(verdict.reason, Reason::over_share);
  EXPECT_EQ(verdict.retry_after, std::nullopt) << "it never fits";
  counters[0].op = store::Op::drain;
  for (const FailurePolicy policy : {FailurePolicy::closed, FailurePolicy::open}) {
    (void)ladder_.without(request(counters, policy, nullptr, 0), now(), findings_);
    EXPECT_EQ(ladder_.known().owed_units(now().store), 0U) << "these serve no parts";
  }
  (void)ladder_.without(request(counters, FailurePolicy::bounded, nullptr, 0), now(), findings_);
  EXPECT_EQ(findings_[0].units, 5U);
  EXPECT_EQ(ladder_.known().owed_units(now().store), 5U);
  EXPECT_EQ(ask(FailurePolicy::bounded)->verdict, Verdict::limited);
}

TEST_F(ShardLadderTest, ALateReportIsRefusedWhereThereIsNoPart) {
  open_breaker();
  const std::array counters{counter(30)};
  LadderRequest late = request(counters, FailurePolicy::bounded, nullptr, 30);
  late.late = 1;
  EXPECT_EQ(ladder_.without(late, now(), findings_).verdict, Verdict::refused);
}

TEST_F(ShardLadderTest, TheCeilingRefusesAndGivesThePartBack) {
  ladder_.divide(Division::fixed(1, 0));
  open_breaker();
  const Numbers ceiling = numbers(3);
  int admitted = 0;
  for (int i = 0; i < 8; ++i) {
    const auto verdict = ask(FailurePolicy::bounded, &ceiling);
    admitted += verdict->verdict == Verdict::allowed ? 1 : 0;
    if (verdict->verdict != Verdict::allowed) {
      EXPECT_EQ(verdict->verdict, Verdict::refused);
      EXPECT_EQ(verdict->rung, Rung::policy);
      EXPECT_EQ(verdict->reason, Reason::over_ceiling);
    }
  }
  EXPECT_EQ(admitted, 3);
  int without_ceiling = 0;
  for (int i = 0; i < 20; ++i)
    without_ceiling += ask(FailurePolicy::bounded)->verdict == Verdict::allowed ? 1 : 0;
  EXPECT_EQ(without_ceiling, 7);
}

TEST_F(ShardLadderTest, OpenAllowsUnderItsCeilingAndSaysThatNobodyCounted) {
  open_breaker();
  const auto free = ask(FailurePolicy::open);
  EXPECT_EQ(free->verdict, Verdict::allowed);
  EXPECT_EQ(free->rung, Rung::policy);
  EXPECT_TRUE(free->unenforced);
  const Numbers ceiling = numbers(2);
  int admitted = 0;
  for (int i = 0; i < 5; ++i)
    admitted += ask(FailurePolicy::open, &ceiling)->verdict == Verdict::allowed ? 1 : 0;
  EXPECT_EQ(admitted, 2);
}

TEST_F(ShardLadderTest, ARefusalSaysWhenToComeBackAlsoBeforeTheBreakerOpens) {
  const std::array counters{counter()};
  const LadderVerdict early =
      ladder_.without(request(counters, FailurePolicy::closed), now(), findings_);
  EXPECT_EQ(early.verdict, Verdict::refused);
  EXPECT_EQ(early.retry_after, milliseconds(500));
  open_breaker();
  const LadderVerdict later =
      ladder_.without(request(counters, FailurePolicy::closed), now(), findings_);
  ASSERT_TRUE(later.retry_after);
  EXPECT_GT(*later.retry_after, Nanos(0));
}

TEST_F(ShardLadderTest, ABlockIsOfWhatIsTakenAndOfNothingElse) {
  const Numbers zero = numbers(0);
  for (const store::Op op : {store::Op::refund, store::Op::reset}) {
    const std::array counters{Counter{.numbers = &zero, .identity = 2, .digest = {2, 2}, .op = op}};
    LadderVerdict verdict;
    EXPECT_EQ(ladder_.begin(request(counters, FailurePolicy::closed), now(), findings_, verdict),
              ShardLadder::Begin::ask);
  }
}

TEST_F(ShardLadderTest, ABlockHoldsInEveryMode) {
  const Numbers zero = numbers(0);
  const std::array counters{Counter{.numbers = &zero, .identity = 2, .digest = {2, 2}}};
  for (const bool away : {false, true}) {
    if (away) open_breaker();
    for (const FailurePolicy policy : {FailurePolicy::closed, FailurePolicy::bounded,
                                       FailurePolicy::settle, FailurePolicy::open}) {
      LadderVerdict verdict;
      EXPECT_EQ(ladder_.begin(request(counters, policy), now(), findings_, verdict),
                ShardLadder::Begin::decided);
      EXPECT_EQ(verdict.verdict, Verdict::limited);
      EXPECT_EQ(verdict.reason, Reason::blocked);
      EXPECT_FALSE(verdict.retry_after);
    }
  }
}

// That needs no store to be known: nobody serves it, and nobody is told to come back.
TEST_F(ShardLadderTest, ACostAboveTheLimitNeverFitsInAnyModeThoughNothingIsKnown) {
  ladder_.divide(Division::fixed(1, 0));
  EXPECT_FALSE(ask(FailurePolicy::closed, nullptr, 11)) << "the store may have newer numbers";
  open_breaker();
  for (const FailurePolicy policy : {FailurePolicy::closed, FailurePolicy::bounded,
                                     FailurePolicy::settle, FailurePolicy::open}) {
    const auto verdict = ask(policy, nullptr, 11);
    ASSERT_TRUE(verdict);
    EXPECT_EQ(verdict->verdict, Verdict::limited) << to_string(policy);
    EXPECT_EQ(verdict->rung, Rung::known);
    EXPECT_EQ(verdict->reason, Reason::cost_exceeds_burst);
    EXPECT_FALSE(verdict->retry_after);
    EXPECT_EQ(findings_[0].step.outcome, Outcome::never_fits);
    EXPECT_FALSE(findings_[0].remaining_known);
  }
  // A rule in shadow denies nobody.
  std::array counters{counter(11), counter(1)};
  counters[0].shadow = true;
  counters[1].digest = {2, 2};
  EXPECT_EQ(ladder_.without(request(counters, FailurePolicy::open), now(), findings_).verdict,
            Verdict::allowed);
}

TEST_F(ShardLadderTest, WhileTheFleetRecoversAKeyIsAskedAboutOrNot) {
  ladder_.divide(Division::fixed(1, 0));
  open_breaker();
  after_ = milliseconds(500);
  ASSERT_EQ(ladder_.breaker().poll(now().mono), breaker::ProbeBreaker::Change::probing);
  (void)ladder_.breaker().on_probe(true, now().mono);
  int asked = 0;
  for (std::uint64_t key = 0; key < 64; ++key) {
    const std::array counters{Counter{.numbers = &ten_, .identity = 1, .digest = {key, key << 10}}};
    LadderVerdict verdict;
    const auto begun =
        ladder_.begin(request(counters, FailurePolicy::bounded), now(), findings_, verdict);
    ASSERT_NE(begun, ShardLadder::Begin::decided);
    asked += begun == ShardLadder::Begin::ask ? 1 : 0;
  }
  EXPECT_EQ(asked, 16);
}

// Its table is full of keys that were spent without the store. How much a newcomer has used nobody
// could say, whatever the ceiling, and in whichever order its rules stand.
TEST_F(ShardLadderTest, ANewcomerForWhomThereIsNoRoomIsRefused) {
  const Numbers wide = numbers(100'000);
  const Numbers two = numbers(2);
  const Numbers ceiling = numbers(1'000'000);
  ladder_.divide(Division::fixed(1, 0));
  open_breaker();
  const auto of_user = [&](std::uint64_t user) {
    return Counter{.numbers = &two, .identity = 1, .digest = {user, user}};
  };
  const Counter of_ip{.numbers = &wide, .identity = 2, .digest = {1, 0}};
  for (std::uint64_t user = 1; user < 30'000; ++user) {
    const std::array counters{of_ip, of_user(user)};
    (void)ladder_.without(request(counters, FailurePolicy::bounded), now(), findings_);
  }
  for (const Numbers* held_to : {static_cast<const Numbers*>(nullptr), &ceiling}) {
    for (const std::array<Counter, 2>& counters :
         {std::array{of_ip, of_user(40'000)}, std::array{of_user(40'000), of_ip}}) {
      for (int i = 0; i < 10; ++i) {
        const LadderVerdict verdict =
            ladder_.without(request(counters, FailurePolicy::bounded, held_to), now(), findings_);
        ASSERT_EQ(verdict.verdict, Verdict::refused);
        EXPECT_EQ(verdict.rung, Rung::policy);
        EXPECT_EQ(verdict.reason, Reason::keys_exhausted);
        EXPECT_TRUE(verdict.retry_after.has_value());
        EXPECT_FALSE(verdict.numbers_known);
      }
    }
  }
}

// Until the whole has room is not long enough where this worker's part then decides.
TEST_F(ShardLadderTest, WhoWaitsAsLongAsAKnownDenialSaysIsAdmittedByThePart) {
  for (const Algorithm algorithm :
       {Algorithm::gcra, Algorithm::fixed_window, Algorithm::sliding_window}) {
    for (std::uint32_t workers = 1; workers <= 5; ++workers) {
      for (std::uint32_t index = 0; index < workers; ++index) {
        for (std::uint64_t key = 1; key <= 4; ++key) {
          ShardLadder ladder({.breaker = {.jitter_percent = 0}, .random_seed = 7});
          ladder.divide(Division::fixed(workers, index));
          const Numbers five = numbers(5, algorithm);
          const Counter asked{.numbers = &five, .identity = 1, .digest = {key, key}};
          const std::array counters{asked};
          after_ = Nanos{0};
          // A part of it was spent in an outage, or none; then the store said that all is used.
          for (std::uint64_t spent = 0; spent < key % 3; ++spent)
            (void)ladder.without(request(counters, FailurePolicy::bounded), now(), findings_);
          after_ = seconds(2);
          const limit::State full = limit::take(five, {}, now().store, 5).next;
          ladder.known().learn(asked, full, now().store, now().mono);
          after_ = seconds(5);
          const LadderVerdict denied =
              ladder.without(request(counters, FailurePolicy::bounded), now(), findings_);
          ASSERT_EQ(denied.rung, Rung::known);
          ASSERT_TRUE(denied.retry_after);
          EXPECT_EQ(findings_[0].step.retry_after_ns, denied.retry_after->count());
          after_ += *denied.retry_after;
          const LadderVerdict then =
              ladder.without(request(counters, FailurePolicy::bounded), now(), findings_);
          EXPECT_EQ(then.verdict, Verdict::allowed)
              << workers << " workers, place of " << index << ", key " << key;
        }
      }
    }
  }
}

TEST_F(ShardLadderTest, AKnownDenialOfOneRuleWaitsForThePartsOfAll) {
  ladder_.divide(Division::fixed(1, 0));
  open_breaker();
  const Numbers hourly =
      Numbers::make(
          {.algorithm = Algorithm::fixed_window, .limit = 1, .period = {.length = minutes(60)}})
          .value();
  const std::array counters{counter(),
                            Counter{.numbers = &hourly, .identity = 2, .digest = {2, 2}}};
  ASSERT_EQ(ladder_.without(request(counters, FailurePolicy::bounded), now(), findings_).verdict,
            Verdict::allowed);
  know(10);
  const LadderVerdict bounded =
      ladder_.without(request(counters, FailurePolicy::bounded), now(), findings_);
  EXPECT_EQ(bounded.rung, Rung::known);
  EXPECT_GT(*bounded.retry_after, Nanos(minutes(1)));
  after_ = *bounded.retry_after;
  EXPECT_EQ(ladder_.without(request(counters, FailurePolicy::bounded), now(), findings_).verdict,
            Verdict::allowed);
  // Where no part decides afterwards, the limit's own time is what there is to say.
  after_ = Nanos{0};
  EXPECT_LE(*ladder_.without(request(counters, FailurePolicy::open), now(), findings_).retry_after,
            Nanos(minutes(1)));
}

// Whatever the policy says: of what nobody could count, nobody knows that it is denied.
TEST_F(ShardLadderTest, ARequestWhoseLimitsAreAllInShadowIsAllowedWithoutTheStore) {
  open_breaker();
  const Numbers none = numbers(0);
  std::array<Counter, 2> counters{counter(), counter()};
  counters[1].digest = {2, 2};
  for (Counter& each : counters) each.shadow = true;
  const auto ask_in_shadow = [&](FailurePolicy policy) {
    return ladder_.without(request(counters, policy, &none), now(), findings_);
  };
  for (const FailurePolicy policy : {FailurePolicy::closed, FailurePolicy::open}) {
    const LadderVerdict verdict = ask_in_shadow(policy);
    EXPECT_EQ(verdict.verdict, Verdict::allowed);
    EXPECT_EQ(verdict.rung, Rung::policy);
    EXPECT_EQ(verdict.reason, Reason::store_unavailable);
    EXPECT_TRUE(verdict.unenforced) << "counted";
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(ask_in_shadow(FailurePolicy::bounded).verdict, Verdict::allowed) << i;
    EXPECT_EQ(ask_in_shadow(FailurePolicy::settle).verdict, Verdict::allowed) << i;
  }
  // One that is in force decides, whatever stands beside it.
  counters[1].shadow = false;
  EXPECT_EQ(ask_in_shadow(FailurePolicy::closed).verdict, Verdict::refused);
  EXPECT_EQ(ask_in_shadow(FailurePolicy::open).reason, Reason::over_ceiling);
  // And so does one whose counter is in shadow because others decide by it.
  counters[1].shadow = true;
  LadderRequest quota = request(counters, FailurePolicy::closed);
  quota.decided_elsewhere = 2;
  EXPECT_EQ(ladder_.without(quota, now(), findings_).verdict, Verdict::refused);
}

// A metered rule of ten, or one beside another, on one of two workers, without the store.
class SettlingLadder : public ShardLadderTest {
 protected:
  void SetUp() override {
    ladder_.divide(Division::fixed(2, 0));
    open_breaker();
  }
  LadderVerdict ask_metered(std::uint64_t cost = 1, const Numbers* beside = nullptr,
                            const Numbers* ceiling = nullptr) {
    counters_[0] = {.numbers = &ten_, .digest = {1, 1}, .cost = cost};
    if (beside != nullptr) counters_[1] = {.numbers = beside, .digest = {2, 2}, .cost = cost};
    request_ = {.counters = {counters_.data(), beside != nullptr ? 2U : 1U},
                .cost = cost,
                .when_store_fails = FailurePolicy::settle,
                .ceiling = &ceiling_,
                .ceiling_numbers = ceiling,
                .metered = 1,
                .overspend = &overspend_};
    return ladder_.without(request_, now(), findings_);
  }
  LadderVerdict could_not_record(const LadderVerdict& served) {
    return ladder_.not_recorded(request_, now(), findings_, served);
  }

  policy::Overspend overspend_{.mode = policy::OverspendMode::cap, .cap = 4};
  std::array<store::Counter, 2> counters_;
  LadderRequest request_;
};

TEST_F(SettlingLadder, ServesItsPartThenItsPartOfTheCapThenLimits) {
  for (int i = 0; i < 5; ++i) {
    const LadderVerdict verdict = ask_metered();
    ASSERT_EQ(verdict.rung, Rung::share) << i;
    ASSERT_EQ(verdict.verdict, Verdict::allowed);
    EXPECT_TRUE(verdict.record) << "usage within the part is usage";
    EXPECT_EQ(verdict.overspent, 0u);
  }
  for (int i = 0; i < 2; ++i) {
    const LadderVerdict verdict = ask_metered();
    ASSERT_EQ(verdict.rung, Rung::journal) << i;
    ASSERT_EQ(verdict.verdict, Verdict::allowed);
    EXPECT_TRUE(verdict.record);
    EXPECT_EQ(verdict.overspent, 1u);
  }
  const LadderVerdict over = ask_metered();
  EXPECT_EQ(over.verdict, Verdict::limited);
  EXPECT_EQ(over.rung, Rung::share);
  EXPECT_EQ(over.reason, Reason::over_share);
  EXPECT_FALSE(over.record);
}

TEST_F(SettlingLadder, RecordsNothingForAProbe) {
  EXPECT_FALSE(ask_metered(0).record);
}

TEST_F(SettlingLadder, GivesBackWhatCouldNotBeRecorded) {
  for (int i = 0; i < 50; ++i) {
    const LadderVerdict refused = could_not_record(ask_metered());
    ASSERT_EQ(refused.verdict, Verdict::refused);
    EXPECT_EQ(refused.rung, Rung::journal) << "it is the journal that cannot";
    EXPECT_FALSE(refused.record);
  }
  for (int i = 0; i < 5; ++i) ASSERT_EQ(ask_metered().rung, Rung::share);
  for (int i = 0; i < 50; ++i) {
    const LadderVerdict limited = could_not_record(ask_metered());
    ASSERT_EQ(limited.verdict, Verdict::limited) << "beyond the part: as if nothing could settle";
    EXPECT_EQ(limited.rung, Rung::share);
  }
  for (int i = 0; i < 2; ++i) ASSERT_EQ(ask_metered().rung, Rung::journal);
  EXPECT_EQ(ask_metered().verdict, Verdict::limited);
}

TEST_F(SettlingLadder, RulesThatAreNotMeteredStayBounded) {
  const Numbers four = numbers(4);
  EXPECT_EQ(ask_metered(1, &four).rung, Rung::share);
  EXPECT_EQ(ask_metered(1, &four).rung, Rung::share);
  const LadderVerdict over = ask_metered(1, &four);
  EXPECT_EQ(over.verdict, Verdict::limited) << "its part of four is two";
  EXPECT_EQ(over.rung, Rung::share);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ask_metered().rung, Rung::share) << "nothing was charged";
}

TEST_F(SettlingLadder, ChargesTheOthersOfARequestThatItServesBeyond) {
  const Numbers twelve = numbers(12);
  for (int i = 0; i < 5; ++i) ASSERT_EQ(ask_metered(1, &twelve).rung, Rung::share);
  ASSERT_EQ(ask_metered(1, &twelve).rung, Rung::journal) << "the sixth of the other's part of six";
  EXPECT_EQ(ask_metered(1, &twelve).verdict, Verdict::limited);
}

// Neither the cap nor a bill makes room for what the limit never has room for.
TEST_F(SettlingLadder, ServesNoCostAboveTheWholeLimitBeyondItsPart) {
  overspend_ = {.mode = policy::OverspendMode::cap, .cap = 1'000};
  for (const auto mode : {policy::OverspendMode::cap, policy::OverspendMode::bill}) {
    overspend_.mode = mode;
    const LadderVerdict over = ask_metered(11);
    EXPECT_EQ(over.verdict, Verdict::limited);
    EXPECT_EQ(over.reason, Reason::cost_exceeds_burst);
    EXPECT_FALSE(over.record);
    EXPECT_EQ(ask_metered(10).rung, Rung::journal) << "as much as the limit, and no more";
  }
}

TEST_F(SettlingLadder, BillsWithoutEndUnderTheCeiling) {
  overspend_ = {.mode = policy::OverspendMode::bill};
  const Numbers ceiling = numbers(8);
  for (int i = 0; i < 5; ++i) ASSERT_EQ(ask_metered(1, nullptr, &ceiling).rung, Rung::share);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(ask_metered(1, nullptr, &ceiling).rung, Rung::journal);
  const LadderVerdict over = ask_metered(1, nullptr, &ceiling);
  EXPECT_EQ(over.verdict, Verdict::refused);
  EXPECT_EQ(over.reason, Reason::over_ceiling);
  EXPECT_FALSE(over.record);
}

TEST_F(SettlingLadder, ServesNothingBeyondWhereItHasNoPartOfTheCap) {
  ladder_.divide(Division::none("it knows nobody"));
  EXPECT_EQ(ask_metered().verdict, Verdict::refused);
  overspend_ = {.mode = policy::OverspendMode::bill};
  EXPECT_EQ(ask_metered().rung, Rung::journal) << "what is billed needs no part";
}

}  // namespace
}  // namespace weir::ladder
