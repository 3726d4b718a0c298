// A hundred workers on one shared breaker, in simulated time: each with its own connection to one
// Redis that runs the shipped scripts, and with what ships between breaker and wire. What goes
// wrong is drawn from a seed.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "breaker/breaker_core.h"
#include "guard/circuit_desk.h"
#include "guard/circuit_hints.h"
#include "testing/sim/sim_line.h"
#include "testing/sim/sim_loop.h"
#include "testing/sim/sim_process.h"
#include "testing/sim/sim_random.h"
#include "testing/sim/sim_redis.h"

namespace weir::sim {
namespace {

using namespace std::chrono_literals;
using testing::SimLine;
using testing::SimLink;
using testing::SimLoop;
using testing::SimProcess;
using testing::SimRandom;
using testing::SimRedis;
using testing::SimWire;

BreakerConfig numbers() {
  BreakerConfig config;
  config.consecutive_failures.reset();
  config.failure_percent = 50;
  config.window = LastTime{.length = 5s, .buckets = 10};
  config.minimum_calls = 10;
  config.open_wait = 1s;
  config.max_open_wait = 8s;
  config.probes = 3;
  config.probes_in_flight = 2;
  config.probe_successes = 2;
  config.probe_deadline = 1s;
  config.max_half_open = 5s;
  config.ramp.reset();
  return config;
}

// One process: its breaker, and the way to the store; and where it listens, the one on which that
// tells it of changes.
class Worker {
 public:
  Worker(SimLoop& loop, SimRedis& server, const BreakerConfig& config, std::uint64_t seed,
         bool listens)
      : line(loop, server, seed),
        hint_link(server.make_link()),
        desk_(line, SimLine::key_space(), line.clock(), 20ms, seed,
              [this](MonoTime when) { line.wake_at(when); }),
        hints_({.channel = guard::CircuitDesk::channel(SimLine::key_space()),
                .credentials = {},
                .random = ~seed},
               std::make_unique<SimWire>(loop, server, hint_link, &line.process), line.clock(),
               [this](std::string_view news) { hear(news); }),
        breaker(Breaker::make("upstream", config, {.clock = &loop, .seed = seed}).value()) {
    if (listens) desk_.listen(hints_);
    line.start({.wake = [this] { desk_.on_wake(); }, .changed = [this] { desk_.line_changed(); }});
    desk_.watch({breaker});
  }
  ~Worker() {
    desk_.close();
    hints_.stop();
    line.stop();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  SimLine line;
  SimLink& hint_link;
  std::uint64_t hints_heard = 0;

 private:
  void hear(std::string_view news) {
    ++hints_heard;
    desk_.hinted(news);
  }

  guard::CircuitDesk desk_;
  guard::CircuitHints hints_;

 public:
  Breaker breaker;
};

// The dependency, and everybody who calls it.
class Fleet {
 public:
  // `listens`: how many of a hundred workers are told of changes by the store.
  Fleet(std::size_t count, std::uint64_t seed, std::uint64_t listens = 0,
        const BreakerConfig& with = numbers())
      : config(with), random(seed), server(loop, seed), listens_(listens), listening_(~seed) {
    for (std::size_t i = 0; i < count; ++i) workers.push_back(make_worker());
    for (std::size_t i = 0; i < count; ++i)
      loop.after(random.between(0ns, kBetween), [this, i] { call(i); });
    loop.run_for(500ms);
  }

  ~Fleet() {
    // What is under way ends, while there is a clock.
    ended_ = true;
    for (auto& worker : workers) worker.reset();
    loop.run_for(10s);
  }

  // Each worker's callers ask fifty times a second.
  static constexpr Nanos kBetween = 20ms;

  void call(std::size_t i) {
    if (ended_) return;
    loop.after(random.between(kBetween * 3 / 4, kBetween * 5 / 4), [this, i] { call(i); });
    Worker* const worker = workers[i].get();
    // Its callers are in its process.
    if (worker == nullptr || worker->line.process.stopped()) return;
    worker->breaker.admit_async([this, i, worker](Admission admission) {
      if (!admission || workers[i].get() != worker) return;
      arrive(i, std::make_shared<Going>(worker->breaker, std::move(admission.permit())));
    });
  }

  // A call under way. Its breaker lives as long.
  struct Going {
    Going(Breaker of, Permit with) : breaker(std::move(of)), permit(std::move(with)) {}
    Breaker breaker;
    Permit permit;
  };

  void arrive(std::size_t i, const std::shared_ptr<Going>& going) {
    ++calls;
    const bool probe = going->permit.is_probe();
    if (workers[i]->breaker.state() == BreakerState::open) ++while_open;
    const std::uint64_t lease = probe ? take_lease(workers[i]->breaker.snapshot()) : 0;
    if (probe) {
      ++probes;
      most_probes = std::max(most_probes, ++probes_out);
    }
    const bool fails = down || (bad_for && *bad_for == i);
    Nanos took = random.between(1ms, 10ms);
    // A call that hangs answers long after its round.
    if (probe && random.percent(late_percent)) took = 3s;
    loop.after(took, [this, i, going, fails, probe, lease, of = workers[i].get()] {
      if (probe) --probes_out;
      if (ended_ || workers[i].get() != of) {  // it crashed with it
        leases_.erase(lease);
        return;
      }
      of->line.process.hear([this, going, fails, lease] {
        leases_.erase(lease);
        going->permit.report(fails ? Outcome::failure : Outcome::ok);
      });
    });
    if (probe && random.percent(crash_percent)) crash(i);
  }

  // A probe that the store gave out, until it reports or its lease is over; 0: it gave none, but
  // the worker that goes by itself.
  std::uint64_t take_lease(const BreakerSnapshot& shot) {
    const bool given =
        shot.tie == FleetTie::follows && shot.fleet && shot.fleet->state == BreakerState::half_open;
    if (!given) return 0;
    // The lease began when the store gave it, a little before this.
    std::erase_if(leases_, [&](const auto& each) {
      return loop.mono() - each.second >= config.probe_deadline - 100ms;
    });
    leases_.emplace(++last_lease_, loop.mono());
    if (loop.mono() >= knows_all_from) most_leases = std::max(most_leases, leases_.size());
    return last_lease_;
  }
  // The store has forgotten what it gave: until those leases are over it gives more.
  void forgot() { knows_all_from = loop.mono() + 3s; }

  // Gone with everything that it held; another takes its place in a while.
  void crash(std::size_t i) {
    loop.after(0ns, [this, i] {
      if (ended_ || workers[i] == nullptr) return;
      ++crashes;
      server.reset(workers[i]->line.link);
      server.reset(workers[i]->hint_link);
      workers[i].reset();
      loop.after(2s, [this, i] { workers[i] = make_worker(); });
    });
  }
  std::unique_ptr<Worker> make_worker() {
    return std::make_unique<Worker>(loop, server, config, random.next(),
                                    listening_.percent(listens_));
  }

  // So many in a hundred, of those who are there.
  std::vector<std::size_t> some(std::uint64_t percent) {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < workers.size(); ++i)
      if (workers[i] != nullptr && random.percent(percent)) out.push_back(i);
    return out;
  }
  void stop(std::size_t i) {
    if (workers[i] != nullptr) workers[i]->line.process.stop();
  }
  // One after the other, each where it is still the process that was stopped.
  void go_on(std::size_t i) {
    if (workers[i] == nullptr || !workers[i]->line.process.stopped()) return;
    workers[i]->line.process.go_on(static_cast<SimProcess::First>(random.below(3)));
  }

  std::size_t in(BreakerState state) const {
    return static_cast<std::size_t>(std::count_if(
        workers.begin(), workers.end(),
        [&](const auto& worker) { return worker != nullptr && worker->breaker.state() == state; }));
  }
  bool all(BreakerState state) const { return in(state) == workers.size(); }
  // Runs until then, at most so long; how long it took.
  std::optional<Nanos> until(const std::function<bool()>& done, Nanos most) {
    const MonoTime begun = loop.mono();
    while (!done()) {
      if (loop.mono() - begun > most) return std::nullopt;
      loop.run_for(5ms);
    }
    return loop.mono() - begun;
  }
  void cut(std::size_t i) { workers[i]->line.link.cut_up = workers[i]->line.link.cut_down = true; }
  void mend(std::size_t i) {
    if (workers[i] == nullptr) return;
    workers[i]->line.link.cut_up = workers[i]->line.link.cut_down = false;
    server.mended(workers[i]->line.link);
    mend_hints(i);
  }
  // What it would be told of changes is held; it hears it once that is mended.
  void cut_hints(std::size_t i) { workers[i]->hint_link.cut_down = true; }
  void mend_hints(std::size_t i) {
    if (workers[i] == nullptr) return;
    workers[i]->hint_link.cut_down = false;
    server.mended(workers[i]->hint_link);
  }

  const BreakerConfig config;
  SimLoop loop;
  SimRandom random;
  SimRedis server;
  std::vector<std::unique_ptr<Worker>> workers;
  bool down = false;
  std::optional<std::size_t> bad_for;
  std::uint64_t crash_percent = 0;
  std::uint64_t late_percent = 0;
  std::uint64_t calls = 0;
  std::uint64_t probes = 0;
  int probes_out = 0;
  int most_probes = 0;
  std::uint64_t crashes = 0;
  std::uint64_t while_open = 0;  // calls that a breaker let go while it was open
  std::size_t most_leases = 0;
  MonoTime knows_all_from{};

 private:
  bool ended_ = false;
  const std::uint64_t listens_;
  SimRandom listening_;
  std::map<std::uint64_t, MonoTime> leases_;
  std::uint64_t last_lease_ = 0;
};

constexpr std::size_t kWorkers = 100;

TEST(SharedBreakerOfAHundred, OpensForAllOnceEnoughSayThatItFails) {
  Fleet fleet(kWorkers, 1);
  fleet.loop.run_for(3s);
  ASSERT_TRUE(fleet.all(BreakerState::closed));
  fleet.down = true;
  const auto first = fleet.until([&] { return fleet.in(BreakerState::open) >= 30; }, 10s);
  ASSERT_TRUE(first);
  const auto rest = fleet.until([&] { return fleet.all(BreakerState::open); }, 1s);
  ASSERT_TRUE(rest);
  EXPECT_LE(*rest, Nanos(200ms)) << "from the quorum to the last";
}

// From the quorum on: the store tells of the change, each reads it, and no more than that passes.
TEST(SharedBreakerOfAHundred, WhoIsToldOfItNeedNotWaitForItsNextLook) {
  Fleet fleet(kWorkers, 1, 100);
  fleet.loop.run_for(3s);
  ASSERT_TRUE(fleet.all(BreakerState::closed));
  fleet.down = true;
  ASSERT_TRUE(fleet.until([&] { return fleet.in(BreakerState::open) >= 30; }, 10s));
  const auto rest = fleet.until([&] { return fleet.all(BreakerState::open); }, 1s);
  ASSERT_TRUE(rest);
  EXPECT_LE(*rest, Nanos(20ms));
  EXPECT_GE(fleet.workers[0]->hints_heard, 1U);
}

TEST(SharedBreakerOfAHundred, AHintThatIsLostIsFoundByTheNextLook) {
  Fleet fleet(kWorkers, 1, 100);
  fleet.loop.run_for(3s);
  for (std::size_t i = 0; i < kWorkers; ++i) fleet.cut_hints(i);
  fleet.down = true;
  ASSERT_TRUE(fleet.until([&] { return fleet.in(BreakerState::open) >= 30; }, 10s));
  const auto rest = fleet.until([&] { return fleet.all(BreakerState::open); }, 1s);
  ASSERT_TRUE(rest);
  EXPECT_LE(*rest, Nanos(200ms));
  EXPECT_EQ(fleet.workers[0]->hints_heard, 0U);
  // Those that come late tell of what has been read.
  for (std::size_t i = 0; i < kWorkers; ++i) fleet.mend_hints(i);
  fleet.loop.run_for(10ms);
  EXPECT_GE(fleet.workers[0]->hints_heard, 1U);
  EXPECT_TRUE(fleet.all(BreakerState::open));
}

TEST(SharedBreakerOfAHundred, OneThatCannotReachTheDependencyOpensForNobodyElse) {
  Fleet fleet(kWorkers, 2);
  fleet.loop.run_for(3s);
  fleet.bad_for = 7;
  ASSERT_TRUE(
      fleet.until([&] { return fleet.workers[7]->breaker.state() == BreakerState::open; }, 10s));
  for (int i = 0; i < 100; ++i) {
    fleet.loop.run_for(100ms);
    EXPECT_GE(fleet.in(BreakerState::closed), kWorkers - 1);
  }
  fleet.bad_for.reset();
  EXPECT_TRUE(fleet.until([&] { return fleet.all(BreakerState::closed); }, 30s));
}

TEST(SharedBreakerOfAHundred, OneThatCannotReachItDoesNotReopenWhatRecovers) {
  BreakerConfig config = numbers();
  config.consecutive_failures = 5;
  config.minimum_calls = 20;
  config.ramp = BreakerRamp{};
  Fleet fleet(kWorkers, 6, 50, config);
  fleet.loop.run_for(3s);
  fleet.down = true;
  ASSERT_TRUE(fleet.until([&] { return fleet.all(BreakerState::open); }, 10s));
  fleet.bad_for = 7;
  fleet.down = false;
  const auto well = [&] {
    return fleet.in(BreakerState::closed) + fleet.in(BreakerState::recovering);
  };
  // Its own probes may fail the fleet's round; then another's succeed.
  ASSERT_TRUE(fleet.until([&] { return well() >= kWorkers - 1; }, 120s));
  for (int i = 0; i < 200; ++i) {
    fleet.loop.run_for(100ms);
    ASSERT_GE(well(), kWorkers - 1) << "after " << i << " tenths of a second";
  }
  EXPECT_GE(fleet.in(BreakerState::closed), kWorkers - 1);
  fleet.bad_for.reset();
  EXPECT_TRUE(fleet.until([&] { return fleet.all(BreakerState::closed); }, 60s));
}

TEST(SharedBreakerOfAHundred, AHerdSendsNoMoreProbesThanOneWorkerMay) {
  Fleet fleet(kWorkers, 3, 100);
  fleet.loop.run_for(3s);
  fleet.down = true;
  ASSERT_TRUE(fleet.until([&] { return fleet.all(BreakerState::open); }, 10s));
  fleet.loop.run_for(500ms);
  fleet.probes = fleet.calls = 0;
  fleet.most_probes = 0;
  // Waits of 1, 2, 4, 8, 8 s: five rounds of at most three calls, whoever asks.
  fleet.loop.run_for(24s);
  EXPECT_GE(fleet.probes, 6U);
  EXPECT_LE(fleet.probes, 3U * 8U);
  EXPECT_EQ(fleet.calls, fleet.probes) << "and no other call goes";
  EXPECT_LE(fleet.most_probes, 2);
  fleet.down = false;
  EXPECT_TRUE(fleet.until([&] { return fleet.all(BreakerState::closed); }, 15s));
}

TEST(SharedBreakerOfAHundred, CostsTheStoreLittleWhileNothingChanges) {
  Fleet fleet(kWorkers, 4);
  fleet.loop.run_for(10s);
  ASSERT_TRUE(fleet.all(BreakerState::closed));
  std::uint64_t looks = 0;
  std::uint64_t scripts = 0;
  fleet.server.on_command = [&](const std::vector<std::string>& command) {
    ++(command[0] == "GET" ? looks : scripts);
  };
  const std::uint64_t before = fleet.calls;
  fleet.loop.run_for(20s);
  const std::uint64_t calls = fleet.calls - before;
  fleet.server.on_command = nullptr;
  EXPECT_GT(calls, 90'000U);
  EXPECT_LE(looks, kWorkers * 20U * 13U);
  // A reading in 2 s and a vote in about 6 s of each.
  EXPECT_LE(scripts, kWorkers * 20U);
}

// Whatever goes wrong, it keeps its bound while it lasts, and ends closed when all is well.
class SharedBreakerFaults : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(SharedBreakerFaults, AreSurvived) {
  const std::uint64_t seed = GetParam();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Fleet fleet(kWorkers, seed, seed % 3 * 50);
  fleet.crash_percent = 20;
  fleet.late_percent = 20;
  fleet.loop.run_for(3s);
  for (int round = 0; round < 12; ++round) {
    fleet.down = fleet.random.percent(60);
    switch (fleet.random.below(8)) {
      case 0: {  // some are cut off, and come back
        const std::vector<std::size_t> some = fleet.some(30);
        for (const std::size_t i : some) fleet.cut(i);
        fleet.loop.run_for(fleet.random.between(100ms, 3s));
        for (const std::size_t i : some) fleet.mend(i);
        break;
      }
      case 1:  // the record is lost
        fleet.server.redis().execute({"DEL", SimLine::key_space().meta({}, "circuit/upstream")});
        fleet.forgot();
        break;
      case 2:  // the server dies, and comes back with nothing, or with what it had a while ago
      {
        const auto had = fleet.server.redis().keys();
        fleet.loop.run_for(fleet.random.between(0ns, 1s));
        fleet.server.stop();
        fleet.loop.run_for(fleet.random.between(100ms, 2s));
        fleet.server.start_with(fleet.random.percent(50) ? had : testing::LuaRedis::Keys{});
        fleet.forgot();
        break;
      }
      case 3:  // it hangs
        fleet.server.hang();
        fleet.loop.run_for(fleet.random.between(100ms, 2s));
        fleet.server.go_on();
        break;
      case 4:
      case 5: {  // some are stopped, and go on one after the other
        const std::vector<std::size_t> some = fleet.some(fleet.random.percent(50) ? 10 : 60);
        for (const std::size_t i : some) fleet.stop(i);
        fleet.loop.run_for(fleet.random.between(10ms, 3s));
        for (const std::size_t i : some) {
          fleet.loop.run_for(fleet.random.between(0ns, 5ms));
          fleet.go_on(i);
        }
        break;
      }
      case 6: {  // some hear of changes late, or lose the connection on which they would
        const std::vector<std::size_t> some = fleet.some(50);
        for (const std::size_t i : some) fleet.cut_hints(i);
        fleet.loop.run_for(fleet.random.between(100ms, 3s));
        for (const std::size_t i : some) {
          if (fleet.workers[i] != nullptr && fleet.random.percent(50))
            fleet.server.reset(fleet.workers[i]->hint_link);
          fleet.mend_hints(i);
        }
        break;
      }
      default:
        break;
    }
    fleet.loop.run_for(fleet.random.between(500ms, 3s));
    EXPECT_EQ(fleet.while_open, 0U) << "round " << round;
    EXPECT_LE(fleet.most_leases, fleet.config.probes_in_flight) << "round " << round;
  }
  for (std::size_t i = 0; i < kWorkers; ++i) fleet.mend(i);
  fleet.crash_percent = fleet.late_percent = 0;
  std::uint64_t hints = 0;
  for (const auto& worker : fleet.workers) hints += worker != nullptr ? worker->hints_heard : 0;
  EXPECT_EQ(hints > 0, seed % 3 > 0);

  // With the store there, and nothing else wrong, what holds is the fleet's.
  fleet.down = true;
  fleet.loop.run_for(12s);
  EXPECT_TRUE(fleet.until([&] { return fleet.in(BreakerState::closed) == 0; }, 20s))
      << fleet.in(BreakerState::closed) << " are still closed";
  fleet.loop.run_for(3s);
  fleet.probes = fleet.calls = 0;
  fleet.loop.run_for(10s);
  EXPECT_LE(fleet.probes, 3U * 12U);
  EXPECT_EQ(fleet.calls, fleet.probes);
  EXPECT_GT(fleet.most_leases, 0U) << "the store gave out no probe";
  EXPECT_LE(fleet.most_leases, fleet.config.probes_in_flight);
  fleet.down = false;
  EXPECT_TRUE(fleet.until([&] { return fleet.all(BreakerState::closed); }, 40s))
      << fleet.in(BreakerState::closed) << " are closed";
  const std::uint64_t before = fleet.calls;
  fleet.loop.run_for(1s);
  EXPECT_GT(fleet.calls - before, kWorkers * 35U) << "and everything goes";
  RecordProperty("crashes", std::to_string(fleet.crashes));
}

// WEIR_SIM_SEED=N runs that seed alone.
std::vector<std::uint64_t> seeds() {
  if (const char* one = std::getenv("WEIR_SIM_SEED")) return {std::strtoull(one, nullptr, 10)};
  std::vector<std::uint64_t> some;
  const char* first = std::getenv("WEIR_SIM_FIRST");
  const char* runs = std::getenv("WEIR_SIM_RUNS");
  const std::uint64_t from = first != nullptr ? std::strtoull(first, nullptr, 10) : 11;
  const std::uint64_t count = runs != nullptr ? std::strtoull(runs, nullptr, 10) : 4;
  for (std::uint64_t seed = from; seed < from + count; ++seed) some.push_back(seed);
  return some;
}
INSTANTIATE_TEST_SUITE_P(Drawn, SharedBreakerFaults, ::testing::ValuesIn(seeds()));

TEST(SharedBreakerOfAHundred, TheHarnessSeesProbesThatTheStoreDidNotGive) {
  // The canary: with the store gone each worker probes by itself, and the count says so.
  Fleet fleet(kWorkers, 5);
  fleet.loop.run_for(3s);
  fleet.down = true;
  ASSERT_TRUE(fleet.until([&] { return fleet.all(BreakerState::open); }, 10s));
  fleet.server.stop();
  fleet.probes = 0;
  fleet.loop.run_for(3s);
  EXPECT_GT(fleet.probes, kWorkers);
  EXPECT_GT(fleet.most_probes, 2);
}

}  // namespace
}  // namespace weir::sim
