#include "guard/shard_driver.h"
#include "guard/split_ask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "policy/key.h"
#include "testing/sim/sim_redis.h"

namespace weir::guard {
namespace {

using namespace std::chrono_literals;
using store::Counter;
using testing::SimLink;
using testing::SimLoop;
using testing::SimRedis;
using testing::SimWire;

constexpr Nanos kDeadline = 20ms;
constexpr policy::Overspend kForgive{.mode = policy::OverspendMode::forgive};

// One rule with one counter.
class Rule {
 public:
  Rule(Algorithm algorithm, std::uint64_t limit, Nanos period, std::uint64_t identity = 7)
      : identity_(identity),
        numbers_(limit::Numbers::make(
                     {.algorithm = algorithm, .limit = limit, .period = {.length = period}})
                     .value()) {
    std::vector<char> buffer(policy::KeyWriter::kMaxKeyBytes);
    key_ = std::string(policy::KeyWriter(buffer.data(), identity).view());
  }
  Counter counter(std::uint64_t cost) const {
    return {.numbers = &numbers_,
            .identity = identity_,
            .digest = {identity_, 0},  // asks in the first step of recovery
            .key = key_,
            .cost = cost,
            .generation = 1};
  }

 private:
  std::uint64_t identity_;
  limit::Numbers numbers_;
  std::string key_;
};

// A driver of one worker of two, on a simulated server.
class Rig : private ShardDriver::Host {
 public:
  enum class Start : std::uint8_t { guest, worker, without_store };
  explicit Rig(FailurePolicy policy, const Rule& rule, std::uint64_t seed = 1,
               Start start = Start::guest)
      : redis(loop, 1),
        policy_(policy),
        rule_(rule),
        wire_(loop, redis, link),
        driver(options(seed, start), store::redis::KeySpace::make("weir", "").value(), wire_, loop,
               &heard, *this) {
    driver.divide(ladder::Division::fixed(2, 0));
    if (start == Start::without_store) redis.stop();
    driver.start();
    loop.run_for(100ms);
    if (start == Start::without_store) driver.started_without();
  }
  ~Rig() override { driver.stop(); }

  struct Asked : SharedAsk {
    void decided(const ladder::LadderVerdict& with, Instant) noexcept override {
      verdict = with;
      at = rig->loop.mono();
      if (on_decided) on_decided();
    }
    std::optional<OwnDecision> decided_by_itself() noexcept override {
      held = true;
      return left;
    }
    bool counts_at(const ShardDriver&) noexcept override { return !errand; }
    bool errand = false;
    bool held = false;  // its caller cannot leave any more
    std::function<void()> on_decided;
    Rig* rig = nullptr;
    Counter counter;
    std::optional<ladder::LadderVerdict> verdict;
    MonoTime at{};
    std::optional<OwnDecision> left;
  };

  Asked& prepared(std::uint64_t cost) {
    Asked& asked = *asks_.emplace_back(std::make_unique<Asked>());
    asked.rig = this;
    asked.counter = rule_.counter(cost);
    asked.request = {.counters = {&asked.counter, 1}, .cost = cost, .when_store_fails = policy_};
    if (policy_ == FailurePolicy::settle) {
      asked.request.metered = 1;
      asked.request.overspend = &kForgive;
    }
    asked.answer_by = loop.mono() + kDeadline;
    asked.loaded_at = Instant{1s};
    return asked;
  }
  Asked& ask(std::uint64_t cost = 1) {
    Asked& asked = prepared(cost);
    if (driver.begin(asked)) driver.send(asked);
    return asked;
  }
  // Callers that come in one turn of the loop.
  std::vector<Asked*> ask_together(std::vector<std::uint64_t> costs) {
    std::vector<Asked*> asks;
    std::vector<SharedAsk*> sent;
    for (const std::uint64_t cost : costs) {
      asks.push_back(&prepared(cost));
      if (driver.begin(*asks.back())) sent.push_back(asks.back());
    }
    driver.send_together(sent);
    return asks;
  }
  std::vector<Asked*> answered_together(std::vector<std::uint64_t> costs) {
    std::vector<Asked*> asks = ask_together(std::move(costs));
    loop.run_for(kDeadline);
    for (const Asked* asked : asks) EXPECT_TRUE(asked->verdict);
    return asks;
  }
  // What was decided without the store is not served after all.
  void withdraw(Asked& asked) {
    ladder::LadderVerdict served = asked.left ? asked.left->verdict : *asked.verdict;
    ASSERT_TRUE(asked.late);
    for (const LateCharges::Charge& charge : asked.late->withdraw()) {
      served.charged_late |= 1;
      driver.give_back(asked, asked.request.counters, {&charge.found, 1});
    }
    (void)driver.not_recorded(asked.request, asked.findings(), served);
  }
  // Asks and waits for the answer.
  Asked& answered(std::uint64_t cost = 1) {
    Asked& asked = ask(cost);
    loop.run_for(kDeadline);
    EXPECT_TRUE(asked.verdict);
    return asked;
  }
  std::uint64_t coalesced() const { return driver.counters().coalesced(); }
  std::uint32_t remaining() {
    Asked& probe = answered(0);
    EXPECT_EQ(probe.verdict->rung, Rung::store);
    return probe.findings()[0].step.remaining;
  }
  std::string metrics() {
    render::Metrics all;
    all.add_source([this](render::Exposition& out) {
      const ShardView view = driver.view("0");
      write_shards({&view, 1}, out);
    });
    std::string text;
    all.write(text);
    return text;
  }

  struct Heard : Observer {
    void on_store_event(const StoreEvent& event) override { events.push_back(event); }
    std::vector<StoreEvent> of(StoreEvent::Kind kind) const {
      std::vector<StoreEvent> out;
      for (const StoreEvent& event : events) {
        if (event.kind == kind) out.push_back(event);
      }
      return out;
    }
    std::vector<StoreEvent> events;
  };

  SimLoop loop;
  SimRedis redis;
  SimLink link;
  Heard heard;
  std::function<void()> on_idle;
  bool another_comes = false;

 private:
  static ShardDriver::Options options(std::uint64_t seed, Start start) {
    ShardDriver::Options options = ShardDriver::Options::of(spec(), seed);
    options.seat.role = start == Start::worker ? FleetRole::worker : FleetRole::guest;
    options.seat.name = "w";
    return options;
  }
  static policy::StoreSpec spec() {
    policy::StoreSpec spec;
    spec.deadline = kDeadline;
    return spec;
  }
  void wake_at(MonoTime when) override {
    loop.at(when, [this, number = ++wake_] {
      if (number == wake_) driver.on_wake();
    });
  }

  void idle() noexcept override {
    if (on_idle) on_idle();
  }
  bool awaited() noexcept override { return another_comes; }

  FailurePolicy policy_;
  const Rule& rule_;
  SimWire wire_;
  std::uint64_t wake_ = 0;
  std::vector<std::unique_ptr<Asked>> asks_;

 public:
  ShardDriver driver;
};

TEST(ShardDriver, AnswersAtItsDeadlineToTheNanosecond) {
  const Rule rule(Algorithm::fixed_window, 10, 1h);
  Rig rig(FailurePolicy::closed, rule);
  rig.redis.hang();
  const MonoTime asked_at = rig.loop.mono();
  Rig::Asked& asked = rig.ask();
  rig.loop.run_for(1s);
  ASSERT_TRUE(asked.verdict);
  EXPECT_EQ(asked.verdict->verdict, Verdict::refused);
  EXPECT_EQ(asked.at, asked_at + kDeadline);
}

// The store executes an ask in time, but its reply comes after the deadline.
TEST(ShardDriver, GivesBackWhatTheStoreChargedForARefusal) {
  for (const Algorithm algorithm : {Algorithm::fixed_window, Algorithm::sliding_window,
                                    Algorithm::gcra, Algorithm::sliding_log}) {
    const Rule rule(algorithm, 10, 1h);
    Rig rig(FailurePolicy::closed, rule);
    EXPECT_EQ(rig.answered(2).verdict->verdict, Verdict::allowed);
    rig.link.cut_down = true;
    Rig::Asked& asked = rig.answered(5);
    EXPECT_EQ(asked.verdict->verdict, Verdict::refused);
    rig.loop.run_for(10ms);
    rig.link.cut_down = false;
    rig.redis.mended(rig.link);
    rig.loop.run_for(10ms);
    EXPECT_EQ(rig.remaining(), 8U) << static_cast<int>(algorithm);
    EXPECT_NE(rig.metrics().find("weir_store_give_backs_total{shard=\"0\",result=\"done\"} 1\n"),
              std::string::npos);
    // Known as given back, too: the next ask that fits is asked.
    EXPECT_EQ(rig.answered(8).verdict->verdict, Verdict::allowed);
  }
}

TEST(ShardDriver, GivesBackWhenTheBreakerReleasedTheAsks) {
  const Rule rule(Algorithm::fixed_window, 10, 1h);
  Rig rig(FailurePolicy::closed, rule);
  rig.link.cut_down = true;
  // Five failures open the breaker; the sixth is released with them.
  for (int i = 0; i < 6; ++i) {
    rig.ask();
    rig.loop.run_for(1ms);
  }
  rig.loop.run_for(50ms);
  EXPECT_EQ(rig.driver.ladder().breaker().state(), breaker::ProbeState::open);
  rig.link.cut_down = false;
  rig.redis.mended(rig.link);
  rig.loop.run_for(5s);
  EXPECT_EQ(rig.remaining(), 10U);
}

// Its probe was sent before, and nobody else sends one while it recovers.
TEST(ShardDriver, TriesNamesThatCameWhileTheBreakerRecoveredOnceItIsClosed) {
  const Rule rule(Algorithm::fixed_window, 10, 1h);
  Rig rig(FailurePolicy::closed, rule);
  rig.link.cut_down = true;
  for (int i = 0; i < 6; ++i) {
    rig.ask();
    rig.loop.run_for(1ms);
  }
  rig.loop.run_for(50ms);
  rig.link.cut_down = false;
  rig.redis.mended(rig.link);
  const auto state = [&] { return rig.driver.ladder().breaker().state(); };
  for (int i = 0; i < 5'000 && state() != breaker::ProbeState::recovering; ++i) {
    rig.loop.run_for(1ms);
  }
  ASSERT_EQ(state(), breaker::ProbeState::recovering);
  rig.redis.redis().execute({"SET", "d_new_0", "7"});
  int tried = 0;
  rig.redis.on_command = [&](const std::vector<std::string>& command) {
    tried += command.size() > 3 && command[3] == "d_new_0";
  };
  rig.driver.try_names({{"d_new_0", "d_"}});
  rig.loop.run_for(5s);
  EXPECT_EQ(state(), breaker::ProbeState::closed);
  EXPECT_EQ(tried, 1);
}

// A connection that ends for another server's sake ends when nothing is on it.
TEST(ShardDriver, IsBusyWithWhatItGivesBack) {
  const Rule rule(Algorithm::fixed_window, 10, 1h);
  Rig rig(FailurePolicy::closed, rule);
  rig.link.cut_down = true;
  EXPECT_EQ(rig.answered(5).verdict->verdict, Verdict::refused);
  rig.link.cut_down = false;
  rig.redis.mended(rig.link);
  int idle = 0;
  rig.on_idle = [&] {
    ++idle;
    EXPECT_FALSE(rig.driver.busy());
    EXPECT_NE(rig.metrics().find("result=\"done\"} 1\n"), std::string::npos);
  };
  rig.loop.run_for(10ms);
  EXPECT_EQ(idle, 1);
  rig.on_idle = nullptr;
  EXPECT_EQ(rig.remaining(), 10U);
}

TEST(ShardDriver, GivesBackToTheServerThatIsAwaited) {
  const Rule rule(Algorithm::fixed_window, 10, 1h);
  Rig rig(FailurePolicy::closed, rule);
  rig.link.cut_down = true;
  EXPECT_EQ(rig.answered(5).verdict->verdict, Verdict::refused);
  rig.link.cut_down = false;
  rig.redis.mended(rig.link);
  rig.another_comes = true;
  rig.loop.run_for(10ms);
  EXPECT_FALSE(rig.driver.busy()) << "what waits keeps nobody from being replaced";
  rig.driver.go_on_giving_back();
  EXPECT_EQ(rig.remaining(), 5U);
  rig.another_comes = false;
  rig.driver.go_on_giving_back();
  rig.loop.run_for(10ms);
  EXPECT_EQ(rig.remaining(), 10U);
  EXPECT_NE(rig.metrics().find("result=\"done\"} 1\n"), std::string::npos);
}

TEST(ShardDriver, CountsAGiveBackThatIsLost) {
  const Rule rule(Algorithm::fixed_window, 10, 1h);
  Rig rig(FailurePolicy::closed, rule);
  rig.link.cut_down = true;
  EXPECT_EQ(rig.answered(5).verdict->verdict, Verdict::refused);
  rig.link.cut_down = false;
  rig.redis.mended(rig.link);
  rig.loop.run_for(200us);  // the reply is there, and what is given back has left
  rig.link.cut_up = true;
  rig.loop.run_for(1ms);
  rig.redis.reset(rig.link);
  rig.link.cut_up = false;
  rig.loop.run_for(5s);
  const std::string metrics = rig.metrics();
  const bool lost = metrics.find("result=\"lost\"} 1\n") != std::string::npos;
  const bool done = metrics.find("result=\"done\"} 1\n") != std::string::npos;
  EXPECT_NE(lost, done) << metrics;
  EXPECT_EQ(rig.remaining(), lost ? 5U : 10U);
}

// A charge that came too late, to a store that writes nothing just then.
class LateCharge {
 public:
  LateCharge(const Rule& rule, std::string error) : rig(FailurePolicy::closed, rule) {
    rig.link.cut_down = true;
    EXPECT_EQ(rig.answered(5).verdict->verdict, Verdict::refused);
    rig.redis.redis().fail_writes_with(std::move(error));
    rig.link.cut_down = false;
    rig.redis.mended(rig.link);
  }
  bool counted(std::string_view result, int times) {
    return rig.metrics().find("weir_store_give_backs_total{shard=\"0\",result=\"" +
                              std::string(result) + "\"} " + std::to_string(times) + "\n") !=
           std::string::npos;
  }

  Rig rig;
};

TEST(ShardDriver, GivesBackOnceAStoreTakesItThatDidNothingBefore) {
  const Rule rule(Algorithm::fixed_window, 10, 1h);
  LateCharge late(rule, "OOM command not allowed when used memory > 'maxmemory'.");
  late.rig.loop.run_for(100ms);
  EXPECT_TRUE(late.counted("lost", 0));
  EXPECT_FALSE(late.rig.driver.busy()) << "what waits keeps nobody from being replaced";
  late.rig.redis.redis().fail_writes_with({});
  late.rig.loop.run_for(100ms);
  EXPECT_TRUE(late.counted("done", 1)) << late.rig.metrics();
  EXPECT_TRUE(late.counted("lost", 0));
  EXPECT_EQ(late.rig.remaining(), 10U);
}

TEST(ShardDriver, GivesUpWhatAStoreDoesNotTakeInTime) {
  const Rule rule(Algorithm::fixed_window, 10, 1h);
  LateCharge late(rule, "OOM command not allowed when used memory > 'maxmemory'.");
  late.rig.loop.run_for(150ms);
  EXPECT_TRUE(late.counted("lost", 0));
  late.rig.loop.run_for(100ms);
  EXPECT_TRUE(late.counted("lost", 1)) << late.rig.metrics();
  late.rig.redis.redis().fail_writes_with({});
  late.rig.loop.run_for(1s);
  EXPECT_TRUE(late.counted("lost", 1) && late.counted("done", 0));
  EXPECT_EQ(late.rig.remaining(), 5U) << "and not a moment later";
}

TEST(ShardDriver, GivesBackOnTheNextConnectionWhatFoundNone) {
  const Rule rule(Algorithm::fixed_window, 10, 1h);
  Rig rig(FailurePolicy::closed, rule);
  Rig::Asked& denied = rig.answered(5);  // elsewhere, as it turns out
  EXPECT_EQ(denied.verdict->verdict, Verdict::allowed);
  rig.redis.reset(rig.link);
  rig.loop.run_for(1ms);
  ASSERT_FALSE(rig.driver.ready());
  rig.driver.give_back(denied, denied.request.counters, denied.findings());
  rig.loop.run_for(199ms);
  EXPECT_EQ(rig.driver.counters().not_given_back(), 0U);
  EXPECT_EQ(rig.remaining(), 10U);
}

// What may have been done is never done again.
TEST(ShardDriver, GivesUpAtOnceWhatMayHaveBeenGivenBack) {
  const Rule rule(Algorithm::fixed_window, 10, 1h);
  LateCharge late(rule, "ERR the upstream server failed");
  late.rig.loop.run_for(10ms);
  EXPECT_TRUE(late.counted("lost", 1)) << late.rig.metrics();
  late.rig.redis.redis().fail_writes_with({});
  late.rig.loop.run_for(1s);
  EXPECT_EQ(late.rig.remaining(), 5U);
}

TEST(ShardDriver, CountsWhatWaitsToBeGivenBackAsLostWhenItStops) {
  const Rule rule(Algorithm::fixed_window, 10, 1h);
  LateCharge late(rule, "LOADING Redis is loading the dataset in memory");
  late.rig.loop.run_for(10ms);
  EXPECT_TRUE(late.counted("lost", 0));
  late.rig.driver.stop();
  EXPECT_TRUE(late.counted("lost", 1)) << late.rig.metrics();
}

// An error reply is an answer: nothing was done. Silence is none.
TEST(ShardDriver, SaysWhetherTheStoreMayHaveCarriedOutWhatItDidNotDecide) {
  const Rule rule(Algorithm::fixed_window, 10, 1h);
  for (const char* said : {"OOM command not allowed", "LOADING Redis is loading", "READONLY You"}) {
    Rig rig(FailurePolicy::closed, rule);
    rig.redis.redis().fail_writes_with(said);
    const Rig::Asked& asked = rig.answered();
    EXPECT_NE(asked.verdict->rung, Rung::store) << said;
    EXPECT_FALSE(asked.verdict->was_sent) << said;
  }
  Rig rig(FailurePolicy::closed, rule);
  rig.link.cut_down = true;
  EXPECT_TRUE(rig.answered().verdict->was_sent);
  rig.link.barred = true;
  rig.redis.reset(rig.link);
  rig.loop.run_for(1ms);
  EXPECT_FALSE(rig.answered().verdict->was_sent) << "there was no connection to send it on";
}

TEST(ShardDriver, WhatNeverCameIsChargedOnceOrNotAtAll) {
  const Rule rule(Algorithm::fixed_window, 10, 1h);
  Rig rig(FailurePolicy::closed, rule);
  // The server hangs past the deadline: the script finds that it is late, and writes nothing.
  rig.redis.hang();
  EXPECT_EQ(rig.answered(5).verdict->verdict, Verdict::refused);
  rig.loop.run_for(10ms);
  rig.redis.go_on();
  rig.loop.run_for(10ms);
  EXPECT_EQ(rig.remaining(), 10U);
}

TEST(ShardDriver, ALateChargeLowersWhatIsOwed) {
  for (const Algorithm algorithm : {Algorithm::fixed_window, Algorithm::gcra}) {
    const Rule rule(algorithm, 10, 1h);
    Rig rig(FailurePolicy::bounded, rule);
    rig.link.cut_down = true;
    Rig::Asked& asked = rig.answered(3);  // its part is 5
    EXPECT_EQ(asked.verdict->verdict, Verdict::allowed);
    EXPECT_EQ(asked.verdict->rung, Rung::share);
    EXPECT_EQ(rig.driver.ladder().known().owed_units(rig.driver.moment().store), 3U);
    rig.link.cut_down = false;
    rig.redis.mended(rig.link);
    rig.loop.run_for(10ms);
    EXPECT_EQ(rig.driver.ladder().known().owed_units(rig.driver.moment().store), 0U);
    EXPECT_EQ(rig.remaining(), 7U) << static_cast<int>(algorithm);
    EXPECT_NE(rig.metrics().find("result=\"done\"} 0\n"), std::string::npos);
  }
}

// A late report that the store carried out after all: it is charged there, and owed no more.
TEST(ShardDriver, ALateDrainLowersWhatIsOwed) {
  for (const std::uint64_t used : {3U, 30U}) {
    const Rule rule(Algorithm::fixed_window, 10, 1h);
    Rig rig(FailurePolicy::bounded, rule);
    rig.link.cut_down = true;
    Rig::Asked& asked = rig.prepared(used);
    asked.counter.op = store::Op::drain;
    if (rig.driver.begin(asked)) rig.driver.send(asked);
    rig.loop.run_for(kDeadline);
    ASSERT_TRUE(asked.verdict);
    EXPECT_EQ(rig.driver.ladder().known().owed_units(rig.driver.moment().store),
              std::min<std::uint64_t>(used, 5));
    rig.link.cut_down = false;
    rig.redis.mended(rig.link);
    rig.loop.run_for(10ms);
    EXPECT_EQ(rig.driver.ladder().known().owed_units(rig.driver.moment().store), 0U);
    Rig::Asked& probe = rig.answered(0);
    EXPECT_EQ(probe.findings()[0].step.remaining, used == 3 ? 7U : 0U);
    EXPECT_NE(rig.metrics().find("result=\"done\"} 0\n"), std::string::npos);
  }
}

// It used up what others, after it, had left of the part: what these owe it does not lower.
TEST(ShardDriver, ALateDrainLeavesWhatOthersOwe) {
  const Rule rule(Algorithm::fixed_window, 10, 1h);
  Rig rig(FailurePolicy::bounded, rule);
  const auto owed = [&] {
    return rig.driver.ladder().known().owed_units(rig.driver.moment().store);
  };
  rig.link.cut_down = true;
  Rig::Asked& asked = rig.prepared(30);
  asked.counter.op = store::Op::drain;
  if (rig.driver.begin(asked)) rig.driver.send(asked);
  std::array<store::Finding, 1> found;
  ASSERT_EQ(rig.driver.without(rig.prepared(2).request, found).rung, Rung::share);
  rig.loop.run_for(kDeadline);
  ASSERT_TRUE(asked.verdict);
  EXPECT_EQ(owed(), 5U);
  rig.link.cut_down = false;
  rig.redis.mended(rig.link);
  rig.loop.run_for(10ms);
  EXPECT_EQ(owed(), 2U);
}

// The metered rule is served beyond its part; the other one is charged to its own, and owed.
TEST(ShardDriver, ALateChargeLowersWhatIsOwedOfARuleBesideOneThatIsServedBeyondItsPart) {
  const Rule metered(Algorithm::fixed_window, 4, 1h);
  const Rule other(Algorithm::fixed_window, 10, 1h, 8);
  // Asked for in time, or by a caller who decided by itself and left.
  for (const bool leaves : {false, true}) {
    SCOPED_TRACE(leaves);
    Rig rig(FailurePolicy::settle, other);
    const auto owed = [&] {
      return rig.driver.ladder().known().owed_units(rig.driver.moment().store);
    };
    const std::array<Counter, 2> counters{metered.counter(3), other.counter(3)};
    std::array<store::Finding, 2> own;
    Rig::Asked& asked = rig.prepared(3);
    asked.request.counters = counters;
    rig.link.cut_down = true;
    ASSERT_TRUE(rig.driver.begin(asked));
    rig.driver.send(asked);
    if (leaves) {
      asked.left = {.verdict = rig.driver.without(asked.request, own), .findings = own};
      EXPECT_EQ(asked.left->verdict.rung, Rung::journal);
    }
    rig.loop.run_for(leaves ? 10ms : kDeadline);
    EXPECT_EQ(owed(), 3U);
    rig.link.cut_down = false;
    rig.redis.mended(rig.link);
    rig.loop.run_for(10ms);
    ASSERT_TRUE(asked.verdict);
    EXPECT_EQ(asked.verdict->rung, leaves ? Rung::store : Rung::journal);
    EXPECT_EQ(owed(), 0U);
    EXPECT_EQ(rig.remaining(), 7U);
  }
}

// Two are owed and on their way to the store when the late charge of both is heard of: they cannot
// be taken out of the total any more, and so the charge is given back.
TEST(ShardDriver, ALateChargeOfWhatWasToldIsGivenBack) {
  const Rule rule(Algorithm::fixed_window, 10, 1h);
  Rig rig(FailurePolicy::bounded, rule);
  rig.link.cut_down = true;
  EXPECT_EQ(rig.answered(2).verdict->rung, Rung::share);
  EXPECT_EQ(rig.answered(1).verdict->rung, Rung::share);  // tells of the two
  rig.link.cut_down = false;
  rig.redis.mended(rig.link);
  rig.loop.run_for(20ms);
  EXPECT_EQ(rig.remaining(), 7U);
  EXPECT_EQ(rig.driver.ladder().known().owed_units(rig.driver.moment().store), 0U);
}

// A metered call is told once its usage is recorded. Where that fails, what the store charged late
// was kept from the limit: always of what is served beyond the part, and of the part where the
// reply came while the disk was waited for.
TEST(ShardDriver, ALateChargeOfWhatTurnsOutNotToBeRecordedIsGivenBack) {
  for (const Algorithm algorithm : {Algorithm::fixed_window, Algorithm::gcra}) {
    for (const std::uint64_t cost : {3, 7}) {  // its part is 5
      for (const bool heard_before : {true, false}) {
        SCOPED_TRACE(::testing::Message() << cost << " units, heard before: " << heard_before);
        const Rule rule(algorithm, 10, 1h);
        Rig rig(FailurePolicy::settle, rule);
        rig.link.cut_down = true;
        Rig::Asked& asked = rig.answered(cost);
        EXPECT_EQ(asked.verdict->rung, cost > 5 ? Rung::journal : Rung::share);
        EXPECT_TRUE(asked.verdict->record);
        if (!heard_before) rig.withdraw(asked);
        rig.link.cut_down = false;
        rig.redis.mended(rig.link);
        rig.loop.run_for(10ms);
        if (heard_before) {
          EXPECT_EQ(rig.remaining(), 10U - cost);
          rig.withdraw(asked);
          rig.loop.run_for(10ms);
        }
        EXPECT_EQ(rig.remaining(), 10U);
        EXPECT_EQ(rig.driver.ladder().known().owed_units(rig.driver.moment().store), 0U);
      }
    }
  }
}

// Of two that went to the store as one, one is served.
TEST(ShardDriver, OfSeveralOnlyWhatIsNotRecordedIsGivenBackOfALateCharge) {
  for (const bool heard_before : {true, false}) {
    const Rule rule(Algorithm::fixed_window, 10, 1h);
    Rig rig(FailurePolicy::settle, rule);
    rig.link.cut_down = true;
    const std::vector<Rig::Asked*> asks = rig.answered_together({2, 2});
    EXPECT_EQ(rig.coalesced(), 1U);
    const auto withdraw_one = [&] { rig.withdraw(*asks.back()); };
    if (!heard_before) withdraw_one();
    rig.link.cut_down = false;
    rig.redis.mended(rig.link);
    rig.loop.run_for(10ms);
    if (heard_before) withdraw_one();
    rig.loop.run_for(10ms);
    EXPECT_EQ(rig.remaining(), 8U) << heard_before;
    EXPECT_EQ(rig.driver.ladder().known().owed_units(rig.driver.moment().store), 0U);
  }
}

TEST(ShardDriver, WhatOpenAdmittedStaysCharged) {
  const Rule rule(Algorithm::fixed_window, 10, 1h);
  Rig rig(FailurePolicy::open, rule);
  rig.link.cut_down = true;
  EXPECT_EQ(rig.answered(4).verdict->rung, Rung::policy);
  rig.link.cut_down = false;
  rig.redis.mended(rig.link);
  rig.loop.run_for(10ms);
  EXPECT_EQ(rig.remaining(), 6U);
}

// Connecting is retried ever more seldom, and so is probing: a store that is back must not have to
// wait for the two to meet.
TEST(ShardDriver, AStoreThatIsBackIsProbedOnAConnectionMadeForIt) {
  const Rule rule(Algorithm::fixed_window, 10, 1h);
  const breaker::ProbeBreakerConfig config = ShardDriver::Options::of({}, 1).ladder.breaker;
  const Nanos longest_cooldown = config.max_cooldown * (100 + config.jitter_percent) / 100;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rig rig(FailurePolicy::closed, rule, seed);
    rig.redis.stop();
    for (int i = 0; i < 6; ++i) rig.answered();
    rig.loop.run_for(20s + Nanos(300ms) * static_cast<int>(seed));
    EXPECT_EQ(rig.driver.ladder().breaker().state(), breaker::ProbeState::open);
    rig.redis.start_with_what_it_had();
    rig.loop.run_for(longest_cooldown + kDeadline);
    EXPECT_NE(rig.driver.ladder().breaker().state(), breaker::ProbeState::open) << seed;
    rig.loop.run_for(config.ramp_step * static_cast<int>(config.ramp_steps));
    EXPECT_EQ(rig.driver.ladder().breaker().state(), breaker::ProbeState::closed) << seed;
  }
}

// Of a shard whose own keys went to another slot the epoch is another one; its data are the same.
// Of another process they may be others.
TEST(ShardDriver, TakesAShardThatGotAnotherNameForTheSameData) {
  const Rule rule(Algorithm::fixed_window, 10, 1h);
  Rig rig(FailurePolicy::closed, rule);
  const auto to_bring = [&] {
    const Counter counter = rule.counter(1);
    return rig.driver.ladder().known().before_loss(counter, rig.driver.moment().store);
  };
  EXPECT_EQ(rig.answered(3).verdict->rung, Rung::store);
  for (const char* name : {"one", "other", "one"}) {
    rig.driver.name_shard(name);
    rig.loop.run_for(100ms);
    EXPECT_FALSE(to_bring()) << name;
  }
  // The same slot, and what it held is gone.
  rig.redis.redis().execute({"FLUSHALL"});
  rig.driver.name_shard("one");
  rig.loop.run_for(100ms);
  ASSERT_TRUE(to_bring());
  EXPECT_EQ(to_bring()->current, 3U);
  EXPECT_EQ(rig.answered(0).findings()[0].step.remaining, 7U);
  // Another process.
  rig.answered(1);
  EXPECT_FALSE(to_bring());
  rig.redis.stop();
  rig.loop.run_for(100ms);
  rig.redis.start_with({});
  rig.driver.name_shard("other");
  rig.loop.run_for(20s);
  EXPECT_TRUE(to_bring());
}

constexpr Algorithm kAlgorithms[] = {Algorithm::fixed_window, Algorithm::sliding_window,
                                     Algorithm::gcra, Algorithm::sliding_log};

TEST(ShardDriver, CallersThatAskAlikeAreOneAskAndAreAnsweredAsIfInTurn) {
  for (const Algorithm algorithm : kAlgorithms) {
    const Rule rule(algorithm, 10, 1h);
    Rig rig(FailurePolicy::closed, rule);
    const auto asks = rig.answered_together({2, 2, 2, 2});
    for (std::size_t i = 0; i < asks.size(); ++i) {
      EXPECT_EQ(asks[i]->verdict->verdict, Verdict::allowed);
      EXPECT_EQ(asks[i]->verdict->rung, Rung::store);
      const store::Finding& found = asks[i]->findings()[0];
      EXPECT_EQ(found.step.remaining, 10U - 2 * (i + 1)) << static_cast<int>(algorithm);
      EXPECT_TRUE(found.charged);
      EXPECT_EQ(found.units, 2U);
    }
    EXPECT_EQ(rig.remaining(), 2U);
    // A log's reply does not say what each would have found.
    EXPECT_EQ(rig.coalesced(), algorithm == Algorithm::sliding_log ? 0U : 3U);
  }
}

TEST(ShardDriver, WhereNotAllFitTheFirstAreAdmittedAndTheOthersAreNot) {
  for (const Algorithm algorithm : kAlgorithms) {
    const Rule rule(algorithm, 10, 1h);
    Rig rig(FailurePolicy::closed, rule);
    rig.answered(3);
    const auto asks = rig.answered_together({2, 2, 2, 2, 2});
    for (std::size_t i = 0; i < asks.size(); ++i) {
      EXPECT_EQ(asks[i]->verdict->verdict, i < 3 ? Verdict::allowed : Verdict::limited);
      const store::Finding& found = asks[i]->findings()[0];
      EXPECT_EQ(found.step.remaining, i < 3 ? 5U - 2 * i : 1U) << static_cast<int>(algorithm);
      EXPECT_EQ(found.charged, i < 3);
      EXPECT_EQ(found.step.retry_after_ns > 0, i >= 3);
    }
    EXPECT_EQ(rig.remaining(), 1U);
  }
}

// Together they ask for more than the limit could ever hold; that is no fault of any of them.
TEST(ShardDriver, MoreCallersThanTheLimitHoldsAreNotToldThatTheyNeverFit) {
  for (const Algorithm algorithm : kAlgorithms) {
    const Rule rule(algorithm, 3, 1h);
    Rig rig(FailurePolicy::closed, rule);
    int allowed = 0;
    for (const Rig::Asked* asked : rig.answered_together(std::vector<std::uint64_t>(100, 1))) {
      allowed += asked->verdict->verdict == Verdict::allowed;
    }
    EXPECT_EQ(allowed, 3) << static_cast<int>(algorithm);
    rig.loop.run_for(2s);  // until what is known is too old to answer with
    EXPECT_EQ(rig.remaining(), 0U);
  }
}

TEST(ShardDriver, CallersThatAskForDifferentCostsAreApart) {
  const Rule rule(Algorithm::fixed_window, 10, 1h);
  Rig rig(FailurePolicy::closed, rule);
  const auto asks = rig.answered_together({1, 2, 0, 1});
  EXPECT_EQ(rig.coalesced(), 1U);
  EXPECT_EQ(asks[1]->findings()[0].units, 2U);
  EXPECT_EQ(asks[2]->findings()[0].units, 0U);
  EXPECT_EQ(rig.remaining(), 6U);
}

TEST(ShardDriver, CallersWhoseTimesDifferAreApart) {
  const Rule rule(Algorithm::fixed_window, 10, 1h);
  Rig rig(FailurePolicy::closed, rule);
  rig.redis.hang();
  Rig::Asked& patient = rig.prepared(1);
  Rig::Asked& hurried = rig.prepared(1);
  hurried.answer_by = rig.loop.mono() + 3ms;
  const MonoTime asked_at = rig.loop.mono();
  std::vector<SharedAsk*> sent{&patient, &hurried};
  rig.driver.send_together(sent);
  rig.loop.run_for(1s);
  EXPECT_EQ(hurried.at, asked_at + 3ms);
  EXPECT_EQ(patient.at, asked_at + kDeadline);
}

// Two of four were admitted from the part of five, at 2 each; the charge of all four comes late.
TEST(ShardDriver, ALateChargeOfSeveralIsSettledForEach) {
  for (const Algorithm algorithm : {Algorithm::fixed_window, Algorithm::gcra}) {
    const Rule rule(algorithm, 10, 1h);
    Rig rig(FailurePolicy::bounded, rule);
    rig.link.cut_down = true;
    int shares = 0;
    for (const Rig::Asked* asked : rig.answered_together({2, 2, 2, 2})) {
      shares += asked->verdict->verdict == Verdict::allowed;
    }
    EXPECT_EQ(shares, 2);
    EXPECT_EQ(rig.coalesced(), 3U);
    rig.link.cut_down = false;
    rig.redis.mended(rig.link);
    rig.loop.run_for(10ms);
    EXPECT_EQ(rig.driver.ladder().known().owed_units(rig.driver.moment().store), 0U);
    EXPECT_EQ(rig.remaining(), 6U) << static_cast<int>(algorithm);
  }
}

// What a caller does when it is answered may take its time; the others may still leave meanwhile.
TEST(ShardDriver, OfSeveralNoneIsHeldWhileAnotherIsBeingTold) {
  const Rule rule(Algorithm::gcra, 10, 1h);
  Rig rig(FailurePolicy::closed, rule);
  const auto asks = rig.ask_together({1, 1, 1, 1});
  int told = 0;
  for (Rig::Asked* ask : asks) {
    ask->on_decided = [&asks, &told] {
      ++told;
      for (const Rig::Asked* other : asks) EXPECT_EQ(other->held, other->verdict.has_value());
    };
  }
  rig.loop.run_for(10ms);
  EXPECT_EQ(told, 4);
}

// One of them has no time left, and takes nobody with it.
TEST(ShardDriver, WhoseTimeHasComeGoesByItself) {
  const Rule rule(Algorithm::gcra, 10, 1h);
  Rig rig(FailurePolicy::closed, rule);
  Rig::Asked& in_time = rig.prepared(1);
  Rig::Asked& too_late = rig.prepared(1);
  in_time.answer_by = rig.loop.mono() + 900us;
  too_late.answer_by = rig.loop.mono();
  std::vector<SharedAsk*> sent{&too_late, &in_time};
  rig.driver.send_together(sent);
  rig.loop.run_for(kDeadline);
  EXPECT_EQ(in_time.verdict->rung, Rung::store);
  EXPECT_EQ(too_late.verdict->verdict, Verdict::refused);
}

TEST(ShardDriver, OfSeveralWhatNobodyTookIsGivenBack) {
  const Rule rule(Algorithm::gcra, 10, 1h);
  Rig rig(FailurePolicy::closed, rule);
  const auto asks = rig.ask_together({2, 2, 2});
  asks[1]->left = SharedAsk::OwnDecision{};
  rig.loop.run_for(10ms);
  EXPECT_EQ(rig.remaining(), 6U);
}

// Somebody else takes a unit before those that fitted ask again.
TEST(ShardDriver, CallersThatDoNotAllFitAreDecidedByTheStoreThoughOthersTakeWhatWasLeft) {
  for (const Algorithm algorithm : kAlgorithms) {
    const Rule rule(algorithm, 10, 1h);
    Rig rig(FailurePolicy::closed, rule);
    rig.answered(4);
    const std::uint64_t before = rig.redis.executed();
    const auto asks = rig.ask_together({2, 2, 2, 2, 2});
    const Rig::Asked& other = rig.ask(1);
    rig.loop.run_for(kDeadline);
    ASSERT_TRUE(other.verdict);
    const bool log = algorithm == Algorithm::sliding_log;  // whose callers ask one by one
    EXPECT_EQ(other.verdict->verdict, log ? Verdict::limited : Verdict::allowed);
    int allowed = 0;
    for (const auto& ask : asks) {
      ASSERT_TRUE(ask->verdict);
      EXPECT_EQ(ask->verdict->rung, Rung::store);
      allowed += ask->verdict->verdict == Verdict::allowed ? 1 : 0;
    }
    EXPECT_EQ(allowed, log ? 3 : 2) << static_cast<int>(algorithm);
    // Five at once, and the other; three of them, and two; each of those who were denied.
    EXPECT_LE(rig.redis.executed() - before, 9U) << static_cast<int>(algorithm);
  }
}

// The asker's patience ended although the reply was in time for the connection.
TEST(ShardDriver, GivesBackWhatNobodyTook) {
  const Rule rule(Algorithm::fixed_window, 10, 1h);
  Rig rig(FailurePolicy::closed, rule);
  Rig::Asked& asked = rig.ask(5);
  asked.left = SharedAsk::OwnDecision{};
  rig.loop.run_for(10ms);
  EXPECT_EQ(rig.remaining(), 10U);
}

// Before it opens five find no connection; while it is open three are decided at once.
TEST(ShardDriver, SaysAtTheReturnHowLongTheStoreWasAwayAndWhatWasDecidedWithoutIt) {
  const Rule rule(Algorithm::fixed_window, 100, 1h);
  Rig rig(FailurePolicy::bounded, rule);
  rig.answered(1);
  rig.redis.stop();
  while (rig.driver.ladder().breaker().state() == breaker::ProbeState::closed) rig.answered(1);
  const std::uint64_t before = rig.driver.counters().without();
  EXPECT_GE(before, 5U);
  const MonoTime ended = rig.driver.connection().since;
  EXPECT_LT(ended, rig.driver.ladder().breaker().since());
  for (int i = 0; i < 3; ++i) rig.answered(2);
  // What was sent beside answers nobody was answered by.
  for (int i = 0; i < 5; ++i) {
    Rig::Asked& errand = rig.prepared(1);
    errand.counter.op = store::Op::refund;
    errand.request.when_store_fails = FailurePolicy::closed;
    errand.errand = true;
    EXPECT_FALSE(rig.driver.begin(errand));
    rig.driver.no_room(errand);
  }
  rig.loop.run_for(10s);
  rig.redis.start_with_what_it_had();
  while (rig.driver.ladder().breaker().state() != breaker::ProbeState::closed) {
    rig.loop.run_for(1ms);
  }
  const auto back = rig.heard.of(StoreEvent::Kind::back);
  ASSERT_EQ(back.size(), 1U);
  EXPECT_EQ(back[0].away_for, rig.driver.ladder().breaker().since() - ended)
      << "since the connection ended";
  EXPECT_EQ(back[0].decided_without, before + 3) << "those that opened the breaker, too";
  EXPECT_EQ(back[0].owed_units, before + 6);
}

// It stands, and says nothing: the calls that waited out their deadlines were decided without it.
TEST(ShardDriver, CountsTheCallsThatFoundOutThatTheStoreHangs) {
  const Rule rule(Algorithm::fixed_window, 100, 1h);
  Rig rig(FailurePolicy::closed, rule);
  const auto hang_and_come_back = [&rig](int asked) {
    rig.redis.hang();
    for (int i = 0; i < asked; ++i) rig.answered(1);
    EXPECT_EQ(rig.driver.ladder().breaker().state(), breaker::ProbeState::open);
    rig.redis.go_on();
    while (rig.driver.ladder().breaker().state() != breaker::ProbeState::closed) {
      rig.loop.run_for(1ms);
    }
    return rig.heard.of(StoreEvent::Kind::back).back().decided_without;
  };
  rig.answered(1);
  EXPECT_EQ(hang_and_come_back(7), 7U);
  // One call that fails alone is no outage, and is not counted to the next.
  rig.redis.hang();
  rig.answered(1);
  rig.redis.go_on();
  rig.loop.run_for(1s);
  rig.answered(1);
  EXPECT_EQ(hang_and_come_back(6), 6U);
}

// An operator sees it as the log says it: since when, and no more once it is back.
TEST(ShardDriver, ShowsSinceWhenTheStoreIsAwayThoughItsBreakerIsClosed) {
  using ::testing::HasSubstr;
  const Rule rule(Algorithm::fixed_window, 100, 1h);
  Rig rig(FailurePolicy::closed, rule);
  EXPECT_EQ(rig.driver.away_for(), std::nullopt);
  EXPECT_THAT(rig.driver.state_json(), HasSubstr("\"away\":false"));
  EXPECT_THAT(rig.metrics(), HasSubstr("weir_store_away_seconds{shard=\"0\"} 0\n"));
  rig.redis.stop();
  rig.loop.run_for(1ms);
  const MonoTime ended = rig.driver.connection().since;
  rig.loop.run_for(ended + 30s - rig.loop.mono());
  EXPECT_EQ(rig.driver.ladder().breaker().state(), breaker::ProbeState::closed) << "nobody asked";
  EXPECT_EQ(rig.driver.away_for(), 30s);
  EXPECT_EQ(rig.driver.connection().since, ended) << "whatever attempts failed since";
  EXPECT_THAT(rig.driver.state_json(), HasSubstr("\"away\":true,\"away_for_ms\":30000,"));
  EXPECT_THAT(rig.driver.state_json(), HasSubstr("\"disconnected_for_ms\":30000,"));
  EXPECT_THAT(rig.metrics(), HasSubstr("weir_store_away_seconds{shard=\"0\"} 30\n"));
  rig.redis.start_with_what_it_had();
  rig.loop.run_for(5s);
  EXPECT_EQ(rig.driver.away_for(), std::nullopt);
  EXPECT_THAT(rig.metrics(), HasSubstr("weir_store_away_seconds{shard=\"0\"} 0\n"));
}

// One server has all slots of a request: it is one request to it, in however many parts it asks.
TEST(ShardDriver, CountsARequestOfSeveralPartsOnce) {
  class AllHere final : public SlotOwners {
   public:
    explicit AllHere(ShardDriver& all) : all_(all) {}
    ShardDriver& owner(std::uint16_t) noexcept override { return all_; }
    void send_soon(SharedAsk&, ShardDriver&) noexcept override {}

   private:
    ShardDriver& all_;
  };
  const Rule rule(Algorithm::fixed_window, 100, 1h);
  const Rule other(Algorithm::fixed_window, 100, 1h, 8);
  Rig rig(FailurePolicy::bounded, rule);
  rig.redis.stop();
  while (rig.driver.ladder().breaker().state() == breaker::ProbeState::closed) rig.answered(1);
  const std::uint64_t before = rig.driver.counters().without();
  AllHere owners(rig.driver);
  for (int i = 0; i < 3; ++i) {
    Rig::Asked& asked = rig.prepared(1);
    const std::array both{rule.counter(1), other.counter(1)};
    asked.request.counters = both;
    const std::array<std::uint16_t, 2> slots{1, 2};
    SplitAsk split(asked, slots, owners);
    EXPECT_FALSE(split.begin());
    ASSERT_TRUE(asked.verdict);
    EXPECT_EQ(asked.verdict->rung, Rung::share);
  }
  EXPECT_EQ(rig.driver.counters().without() - before, 3U);
}

// Nobody asks, or too few do for the breaker to open: the outage is told all the same, once.
TEST(ShardDriver, SaysOnceThatTheStoreIsAwayThoughNobodyAsks) {
  using Kind = StoreEvent::Kind;
  const Rule rule(Algorithm::fixed_window, 100, 1h);
  Rig rig(FailurePolicy::bounded, rule);
  rig.redis.stop();
  rig.loop.run_for(1s);
  EXPECT_TRUE(rig.heard.of(Kind::away).empty()) << "it may be restarting";
  EXPECT_EQ(rig.answered(1).verdict->rung, Rung::share);
  rig.loop.run_for(20s);
  ASSERT_EQ(rig.heard.of(Kind::away).size(), 1U);
  EXPECT_EQ(rig.driver.ladder().breaker().state(), breaker::ProbeState::closed);
  EXPECT_TRUE(rig.heard.of(Kind::back).empty());
  rig.redis.start_with_what_it_had();
  rig.loop.run_for(5s);
  const auto back = rig.heard.of(Kind::back);
  ASSERT_EQ(back.size(), 1U);
  EXPECT_GT(back[0].away_for, Nanos(21s));
  EXPECT_LT(back[0].away_for, Nanos(26s));
  EXPECT_EQ(back[0].decided_without, 1U);
  EXPECT_EQ(back[0].owed_units, 1U);
  EXPECT_EQ(rig.heard.of(Kind::away).size(), 1U);
  EXPECT_EQ(rig.answered(1).verdict->rung, Rung::store);
}

TEST(ShardDriver, DoesNotSayASecondTimeThatTheStoreIsAwayWhenTheBreakerOpens) {
  using Kind = StoreEvent::Kind;
  const Rule rule(Algorithm::fixed_window, 100, 1h);
  Rig rig(FailurePolicy::closed, rule);
  rig.redis.stop();
  rig.loop.run_for(10s);
  for (int i = 0; i < 6; ++i) rig.answered(1);
  EXPECT_EQ(rig.driver.ladder().breaker().state(), breaker::ProbeState::open);
  EXPECT_EQ(rig.heard.of(Kind::away).size(), 1U);
  rig.redis.start_with_what_it_had();
  rig.loop.run_for(15s);
  EXPECT_EQ(rig.heard.of(Kind::answers_again).size(), 1U);
  ASSERT_EQ(rig.heard.of(Kind::back).size(), 1U);
  EXPECT_GT(rig.heard.of(Kind::back)[0].away_for, Nanos(10s));
  EXPECT_EQ(rig.heard.of(Kind::back)[0].decided_without, 6U);
}

TEST(ShardDriver, SaysThatAStoreIsBackWhichWasAwayAtTheStart) {
  using Kind = StoreEvent::Kind;
  const Rule rule(Algorithm::fixed_window, 100, 1h);
  Rig rig(FailurePolicy::closed, rule, 1, Rig::Start::without_store);
  rig.loop.run_for(30s);
  EXPECT_TRUE(rig.heard.of(Kind::away).empty()) << "it was said at the start";
  rig.redis.start_with_what_it_had();
  rig.loop.run_for(5s);
  ASSERT_EQ(rig.heard.of(Kind::back).size(), 1U);
  EXPECT_GT(rig.heard.of(Kind::back)[0].away_for, Nanos(30s));
}

// It stands, and says nothing: the beats find out.
TEST(ShardDriver, SaysThatAStoreHangsThoughNobodyAsks) {
  using Kind = StoreEvent::Kind;
  const Rule rule(Algorithm::fixed_window, 100, 1h);
  Rig rig(FailurePolicy::closed, rule, 1, Rig::Start::worker);
  rig.redis.hang();
  rig.loop.run_for(10s);
  ASSERT_EQ(rig.heard.of(Kind::away).size(), 1U);
  EXPECT_EQ(rig.heard.of(Kind::away)[0].next_probe, Nanos(0));
  rig.redis.go_on();
  rig.loop.run_for(5s);
  EXPECT_EQ(rig.heard.of(Kind::back).size(), 1U);
}

TEST(ShardDriver, WhatFindsNoRoomIsDecidedByPolicyAndCountedAndSaysNothingOfTheStore) {
  const Rule rule(Algorithm::fixed_window, 100, 1h);
  Rig rig(FailurePolicy::closed, rule);
  for (int i = 0; i < 20; ++i) {
    Rig::Asked& asked = rig.prepared(1);
    rig.driver.no_room(asked);
    ASSERT_TRUE(asked.verdict);
    EXPECT_EQ(asked.verdict->verdict, Verdict::refused);
    EXPECT_EQ(asked.verdict->reason, Reason::store_unavailable);
  }
  const std::string metrics = rig.metrics();
  EXPECT_NE(metrics.find("weir_store_no_room_total{shard=\"0\"} 20\n"), std::string::npos);
  EXPECT_NE(metrics.find("weir_store_errors_total{shard=\"0\",class=\"unreachable\"} 20\n"),
            std::string::npos)
      << metrics;
  EXPECT_EQ(rig.answered(1).verdict->rung, Rung::store);
}

}  // namespace
}  // namespace weir::guard
