// Twenty workers on one shared concurrency limit, in simulated time: each with its own connection
// to one Redis that runs the shipped script, and with what ships between limit and wire. What goes
// wrong is drawn from a seed; who holds what is known here, and held against the limit.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "guard/lease_desk.h"
#include "guard/shared_limit.h"
#include "testing/sim/sim_line.h"
#include "testing/sim/sim_loop.h"
#include "testing/sim/sim_random.h"
#include "testing/sim/sim_redis.h"

namespace weir::sim {
namespace {

using namespace std::chrono_literals;
using guard::SharedLimit;
using testing::SimLine;
using testing::SimLink;
using testing::SimLoop;
using testing::SimRandom;
using testing::SimRedis;

const SharedLimit::Counter kCounter{.key = "reports of ada", .digest = {}};

// Of its part of the limit.
using Part = std::function<std::uint32_t(std::uint32_t limit)>;

// One process: its limit, and the way to the store.
class Worker {
 public:
  Worker(SimLoop& loop, SimRedis& server, const ConcurrencyConfig& numbers, std::uint64_t seed,
         Part part)
      : line(loop, server, seed),
        limit(std::make_shared<SharedLimit>("reports", numbers, loop)),
        desk_(line, SimLine::key_space(), line.clock(), 20ms,
              {.wake_at = [this](MonoTime when) { line.wake_at(when); },
               .part = [part = std::move(part)](std::uint32_t of, std::uint16_t,
                                                const KeyDigest&) { return part(of); },
               .store_now = [&loop] { return loop.now(); }}) {
    line.start({.wake = [this] { desk_.on_wake(); }, .changed = [this] { desk_.line_changed(); }});
    desk_.serve({limit});
  }
  ~Worker() {
    desk_.close();
    line.stop();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  SimLine line;
  std::shared_ptr<SharedLimit> limit;

 private:
  guard::LeaseDesk desk_;
};

// The workers, and all who ask them.
class Fleet {
 public:
  static constexpr std::size_t kWorkers = 20;
  static constexpr std::uint32_t kLimit = 30;
  // No slot is held for longer than this, which is less than the longest hold.
  static constexpr Nanos kLongest = 1s;

  static ConcurrencyConfig numbers() {
    return {.limit = kLimit, .lease = 1s, .max_hold = 4s, .max_waiting = 100};
  }

  // `parts` absent: they sum to the limit.
  explicit Fleet(std::uint64_t seed, Part parts = {}) : random(seed), server(loop, seed) {
    for (std::size_t i = 0; i < kWorkers; ++i) parts_.push_back(parts ? parts : part_of(i));
    workers.resize(kWorkers);
    for (std::size_t i = 0; i < kWorkers; ++i) start(i);
    for (std::size_t i = 0; i < kWorkers; ++i) {
      loop.after(random.between(400ms, 600ms), [this, i] { slot_caller(i); });
      loop.after(random.between(400ms, 600ms), [this, i] { lease_caller(i); });
    }
    look();
  }
  ~Fleet() {
    ended = true;
    loop.run_for(10s);
    holdings.clear();
    for (auto& worker : workers) worker.reset();
    loop.run_for(1s);
  }

  // Units that somebody believes to hold.
  std::uint64_t standing() const {
    std::uint64_t sum = 0;
    for (const auto& each : holdings) {
      // Who is stopped uses nothing.
      const bool stands =
          each->slot ? each->slot.stands() && !stopped(each->worker) : loop.mono() < each->ends;
      if (!each->over && stands) sum += each->weight;
    }
    return sum;
  }

  void crash(std::size_t i) {
    if (workers[i] == nullptr) return;
    server.reset(workers[i]->line.link);
    for (const auto& each : holdings)
      if (each->worker == i) each->over = true;
    workers[i].reset();
    std::erase_if(holdings, [](const auto& each) { return each->over; });
    loop.after(random.between(500ms, 2s), [this, i] { start(i); });
  }
  bool stopped(std::size_t i) const {
    return workers[i] != nullptr && workers[i]->line.process.stopped();
  }
  void stop(std::size_t i) {
    if (workers[i] != nullptr) workers[i]->line.process.stop();
  }
  void cut(std::size_t i) {
    if (workers[i] != nullptr) workers[i]->line.link.cut_up = workers[i]->line.link.cut_down = true;
  }
  void mend(std::size_t i) {
    if (workers[i] == nullptr) return;
    SimLink& link = workers[i]->line.link;
    link.cut_up = link.cut_down = false;
    link.jitter = 0ns;
    server.mended(link);
    if (stopped(i))
      workers[i]->line.process.go_on(static_cast<testing::SimProcess::First>(random.below(3)));
  }

  SimLoop loop;
  SimRandom random;
  SimRedis server;
  std::vector<std::unique_ptr<Worker>> workers;
  std::uint64_t most = 0;   // that stood at once
  std::uint64_t given = 0;  // grants
  std::uint64_t repeated = 0;
  std::uint64_t lost = 0;  // that ended before what their holders had been told
  std::uint64_t slots_lost = 0;
  bool ended = false;  // nobody asks any more

  // One that was given.
  struct Holding {
    std::size_t worker = 0;
    std::uint32_t weight = 1;
    std::string id;
    Slot slot;        // of a caller in the process
    MonoTime ends{};  // of one outside
    MonoTime until{};
    bool over = false;
  };
  std::vector<std::shared_ptr<Holding>> holdings;

 private:
  static Part part_of(std::size_t i) {
    return [i](std::uint32_t limit) {
      return limit / std::uint32_t{kWorkers} + (i < limit % kWorkers ? 1 : 0);
    };
  }
  void start(std::size_t i) {
    workers[i] = std::make_unique<Worker>(loop, server, numbers(), random.next(), parts_[i]);
  }
  // Whatever stands is looked at a thousand times a second.
  void look() {
    most = std::max(most, standing());
    for (const auto& each : holdings) {
      if (each->over || !each->slot || stopped(each->worker) || each->slot.stands()) continue;
      each->over = true;
      ++slots_lost;
    }
    std::erase_if(holdings, [](const auto& each) { return each->over; });
    loop.after(1ms, [this] { look(); });
  }
  // Two are more than the part of half of the workers: nobody can give them without the store.
  std::uint32_t weight() { return random.percent(50) ? 1 : 2; }

  // Waits for units, works with them, and comes again.
  void slot_caller(std::size_t i) {
    if (ended) return;
    const auto again = [this, i] {
      loop.after(random.between(1ms, 200ms), [this, i] { slot_caller(i); });
    };
    Worker* const worker = workers[i].get();
    if (worker == nullptr) return again();
    // A caller in the process is stopped with it.
    if (stopped(i)) return loop.after(10ms, [this, i] { slot_caller(i); });
    const std::uint32_t units = weight();
    worker->limit->acquire(kCounter, units, 2s, [=, this](const LeaseAnswer& answer) {
      again();
      if (!answer || workers[i].get() != worker) return;
      ++given;
      auto held = std::make_shared<Holding>();
      held->worker = i;
      held->weight = units;
      held->slot = worker->limit->slot(kCounter, *answer.lease);
      holdings.push_back(held);
      worker->line.process.after(random.between(20ms, kLongest), [held] {
        held->over = true;
        held->slot.release();
      });
    });
  }

  // As a caller elsewhere does over HTTP: it chooses an id, asks again with it where it has heard
  // nothing of use, renews at a third of the lease, and releases.
  void lease_caller(std::size_t i) {
    if (ended) return;
    loop.after(random.between(300ms, 1500ms), [this, i] { lease_caller(i); });
    auto held = std::make_shared<Holding>();
    held->worker = i;
    held->weight = weight();
    held->id = "caller-of-its-own-" + std::to_string(++ids_);
    lease(held, 0);
  }
  void lease(const std::shared_ptr<Holding>& held, int tries) {
    Worker* const worker = workers[held->worker].get();
    if (worker == nullptr) return;
    const MonoTime asked = loop.mono();
    const auto heard = [=, this](const LeaseAnswer& answer) {
      if (workers[held->worker].get() != worker) return;
      if (answer.refusal == LeaseRefusal::store_away && tries < 5)
        return loop.after(1ms, [=, this] { lease(held, tries + 1); });
      if (!answer) return;
      ++given;
      repeated += answer.lease->repeated ? 1 : 0;
      held->ends = asked + answer.lease->expires_in;
      held->until = loop.mono() + random.between(20ms, 700ms);
      holdings.push_back(held);
      go_on(held);
    };
    worker->line.process.hear(
        [=] { worker->limit->lease(kCounter, {.id = held->id, .weight = held->weight}, heard); });
  }
  void go_on(const std::shared_ptr<Holding>& held) {
    loop.after(300ms, [=, this] {
      Worker* const worker = workers[held->worker].get();
      if (held->over || worker == nullptr) return;
      if (loop.mono() >= held->until) {
        held->over = true;
        return worker->line.process.hear(
            [=] { worker->limit->release(kCounter, held->id, [](const Result<bool>&) {}); });
      }
      const MonoTime asked = loop.mono();
      const auto heard = [=, this](const LeaseAnswer& answer) {
        if (held->over || workers[held->worker].get() != worker) return;
        if (answer) held->ends = asked + answer.lease->expires_in;
        if (answer.refusal == LeaseRefusal::gone) {
          if (loop.mono() < held->ends) ++lost;
          held->over = true;
          return;
        }
        go_on(held);
      };
      worker->line.process.hear([=] { worker->limit->renew(kCounter, held->id, heard); });
    });
  }

  std::vector<Part> parts_;
  std::uint64_t ids_ = 0;
};

// Runs it without faults for longer than any hold, and then looks at what stands.
void expect_exact(Fleet& fleet, Nanos time = 2s) {
  fleet.loop.run_for(Fleet::numbers().max_hold + 500ms);
  fleet.most = fleet.given = fleet.lost = fleet.slots_lost = 0;
  fleet.loop.run_for(time);
  EXPECT_LE(fleet.most, Fleet::kLimit);
  EXPECT_GT(fleet.most, Fleet::kLimit / 2) << "and nearly all of it is used";
  EXPECT_GT(fleet.given, 10U);
  EXPECT_EQ(fleet.lost + fleet.slots_lost, 0U);
}

// Nobody asks any more: then all units are free again, once what was held has ended.
void expect_all_free(Fleet& fleet) {
  fleet.ended = true;
  fleet.loop.run_for(Fleet::numbers().max_hold + 1s);
  EXPECT_EQ(fleet.standing(), 0U);
  std::optional<LeaseAnswer> all;
  fleet.workers[0]->limit->lease(kCounter, {.id = {}, .weight = Fleet::kLimit},
                                 [&](LeaseAnswer answer) { all = std::move(answer); });
  fleet.loop.run_for(100ms);
  ASSERT_TRUE(all);
  EXPECT_TRUE(*all) << to_string(all->refusal);
}

TEST(SharedLeaseOfTwenty, NeverHoldMoreThanTheLimitWhileTheStoreAnswers) {
  Fleet fleet(1);
  expect_exact(fleet, 20s);
  expect_all_free(fleet);
}

TEST(SharedLeaseOfTwenty, AHolderThatDiesFreesItsUnitsWhenItsLeaseEndsAndNotBefore) {
  Fleet fleet(2);
  fleet.ended = true;
  fleet.loop.run_for(4s);
  const auto take = [&](std::size_t i) {
    std::optional<LeaseAnswer> answer;
    fleet.workers[i]->limit->lease(kCounter, {.id = {}, .weight = Fleet::kLimit},
                                   [&](LeaseAnswer heard) { answer = std::move(heard); });
    fleet.loop.run_for(5ms);
    return answer.value();
  };
  const MonoTime taken = fleet.loop.mono();
  ASSERT_TRUE(take(3));
  fleet.crash(3);
  while (!take(4)) ASSERT_LT(fleet.loop.mono() - taken, Nanos(2s));
  EXPECT_GE(fleet.loop.mono() - taken, Nanos(1s));
  EXPECT_LE(fleet.loop.mono() - taken, Nanos(1s + 20ms));
}

TEST(SharedLeaseOfTwenty, HoldersRenewWhileHundredsWait) {
  // Waiters that each ask ten times a second would fill a server that does a thousand things a
  // second, and renewals would come too late behind them.
  SimLoop loop;
  SimRedis server(loop, 3);
  const ConcurrencyConfig numbers{
      .limit = 25, .lease = 600ms, .max_hold = 1min, .max_waiting = 500};
  Worker worker(loop, server, numbers, 3, [](std::uint32_t limit) { return limit; });
  server.set_work(1ms);
  loop.run_for(500ms);
  std::vector<Slot> slots;
  const auto take = [&](const LeaseAnswer& answer) {
    if (answer) slots.push_back(worker.limit->slot(kCounter, *answer.lease));
  };
  for (int i = 0; i < 25; ++i) {
    worker.limit->lease(kCounter, {}, take);
    loop.run_for(10ms);
  }
  ASSERT_EQ(slots.size(), 25U);
  for (int i = 0; i < 500; ++i) worker.limit->acquire(kCounter, 1, 50s, take);
  loop.run_for(2s);
  EXPECT_EQ(worker.limit->snapshot().waiting, 500U);
  LeaseRefusal one_more = LeaseRefusal::none;
  worker.limit->acquire(kCounter, 1, 50s,
                        [&](const LeaseAnswer& answer) { one_more = answer.refusal; });
  EXPECT_EQ(one_more, LeaseRefusal::queue_full);

  std::uint64_t commands = 0;
  server.on_command = [&](const std::vector<std::string>&) { ++commands; };
  loop.run_for(10s);
  EXPECT_TRUE(std::all_of(slots.begin(), slots.end(), [](const Slot& s) { return s.stands(); }));
  EXPECT_EQ(slots.size(), 25U);
  // Ten a second of the first that waits, at most five renewals of each that holds.
  EXPECT_LE(commands, 10U * (10U + 25U * 5U + 5U));

  // What comes free goes to the next at once, and to one alone.
  slots.erase(slots.begin());
  loop.run_for(20ms);
  EXPECT_EQ(slots.size(), 25U);
  EXPECT_EQ(worker.limit->snapshot().waiting, 499U);
  loop.run_for(40s);
  EXPECT_EQ(worker.limit->snapshot().waiting, 0U) << "their patience is over";
}

TEST(SharedLeaseOfTwenty, ASlotOfTheShortestLeaseStands) {
  SimLoop loop;
  SimRedis server(loop, 4);
  const ConcurrencyConfig numbers{.limit = 3, .lease = 100ms, .max_hold = 1min};
  Worker worker(loop, server, numbers, 4, [](std::uint32_t limit) { return limit; });
  worker.line.link.latency = 5ms;
  loop.run_for(500ms);
  // The second in the middle between two turns.
  std::vector<Slot> slots;
  for (int i = 0; i < 2; ++i) {
    worker.limit->lease(kCounter, {}, [&](const LeaseAnswer& answer) {
      slots.push_back(worker.limit->slot(kCounter, answer.lease.value()));
    });
    loop.run_for(37ms);
  }
  ASSERT_EQ(slots.size(), 2U);
  for (int i = 0; i < 10'000; ++i) {
    loop.run_for(1ms);
    for (const Slot& slot : slots) ASSERT_TRUE(slot.stands()) << "after " << i << " ms";
  }
}

TEST(SharedLeaseOfTwenty, ASlotOfALeaseThatIsNearlyOverIsRenewedAtOnce) {
  // So it is given to one that waited and did not hear of it for nearly all of its time.
  SimLoop loop;
  SimRedis server(loop, 6);
  Worker worker(loop, server, Fleet::numbers(), 6, [](std::uint32_t limit) { return limit; });
  loop.run_for(500ms);
  std::optional<LeaseAnswer> given;
  worker.limit->lease(kCounter, {}, [&](LeaseAnswer answer) { given = std::move(answer); });
  loop.run_for(950ms);
  ASSERT_TRUE(given && *given);
  const Slot slot = worker.limit->slot(kCounter, *given->lease);
  for (int i = 0; i < 2'000; ++i) {
    ASSERT_TRUE(slot.stands()) << "after " << i << " ms";
    loop.run_for(1ms);
  }
}

TEST(SharedLeaseOfTwenty, WhoeverIsStoppedPastItsLeaseHoldsNothingAsItGoesOn) {
  using First = testing::SimProcess::First;
  for (const First first : {First::longest_due, First::what_came, First::timers}) {
    for (Nanos stop = 100ms; stop <= 2500ms; stop += 100ms) {
      SCOPED_TRACE(std::to_string(static_cast<int>(first)) + ", stopped for " +
                   std::to_string(stop / 1ms) + " ms");
      SimLoop loop;
      SimRedis server(loop, 8);
      const Part none = [](std::uint32_t) { return 0U; };
      Worker one(loop, server, Fleet::numbers(), 8, none);
      Worker other(loop, server, Fleet::numbers(), 9, none);
      loop.run_for(500ms);
      Slot slot;
      one.limit->lease(kCounter, {.id = {}, .weight = Fleet::kLimit},
                       [&](const LeaseAnswer& answer) {
                         if (answer) slot = one.limit->slot(kCounter, *answer.lease);
                       });
      loop.run_for(700ms);
      ASSERT_TRUE(slot.stands());
      bool taken = false;
      other.limit->acquire(kCounter, Fleet::kLimit, 10s,
                           [&](const LeaseAnswer& answer) { taken = bool(answer); });
      one.line.process.stop();
      loop.run_for(stop);
      one.line.process.go_on(first);
      loop.run_for(0ms);
      ASSERT_FALSE(taken && slot.stands());
      // At least half of its time was left, and no more than all of it.
      if (stop < Fleet::numbers().lease / 2) {
        EXPECT_TRUE(slot.stands());
      }
      if (stop >= Fleet::numbers().lease) {
        EXPECT_FALSE(slot.stands()) << "by its own clock, whatever it has heard";
      }
      for (int i = 0; i < 1'000; ++i) {
        loop.run_for(1ms);
        ASSERT_FALSE(taken && slot.stands()) << "after " << i << " ms";
      }
    }
  }
}

TEST(SharedLeaseOfTwenty, AskedForAgainUntilItIsHeardOfItStandsInWhateverOrderTheAnswersCome) {
  // Answers that are late to an ask, in time for the next, or in between, by the millisecond.
  SimLoop loop;
  SimRedis server(loop, 7);
  Worker worker(loop, server, Fleet::numbers(), 7, [](std::uint32_t) { return 0U; });
  loop.run_for(500ms);
  std::optional<LeaseAnswer> given;
  std::string id = "warm-warm-warm-warm";
  const std::function<void()> ask = [&] {
    worker.limit->lease(kCounter, {.id = id, .weight = Fleet::kLimit}, [&](LeaseAnswer answer) {
      if (answer.refusal == LeaseRefusal::store_away) return loop.after(1ms, ask);
      given = std::move(answer);
    });
  };
  int worlds = 0;
  int repeated = 0;
  for (Nanos slow = 200us; slow <= 40ms; slow += 3ms) {
    for (Nanos mended = 0ms; mended <= 50ms; mended += 1ms) {
      SCOPED_TRACE(std::to_string(slow.count()) + " ns, mended after " +
                   std::to_string(mended.count()));
      worker.line.link.latency = slow;
      loop.after(mended, [&] { worker.line.link.latency = 200us; });
      given.reset();
      ask();
      loop.run_for(200ms);
      ASSERT_TRUE(given && *given) << "what nobody heard of is in nobody's way";
      repeated += given->lease->repeated ? 1 : 0;
      std::optional<LeaseAnswer> renewed;
      worker.limit->renew(kCounter, id, [&](LeaseAnswer answer) { renewed = std::move(answer); });
      loop.run_for(10ms);
      ASSERT_TRUE(renewed && *renewed) << "it was given back";
      worker.limit->release(kCounter, id, [](const Result<bool>&) {});
      loop.run_for(10ms);
      id = "caller-of-its-own-" + std::to_string(++worlds);
    }
  }
  EXPECT_GT(repeated, 50);
  EXPECT_GT(worlds, 500);
}

// What happens in a round of faults, each drawn.
enum class Fault : std::uint8_t { cut, slow, hang, crash, lose, stop, pause };

void play(Fleet& fleet, Fault fault) {
  std::vector<std::size_t> some;
  for (std::size_t i = 0; i < Fleet::kWorkers; ++i)
    if (fleet.random.percent(30)) some.push_back(i);
  switch (fault) {
    case Fault::cut:
      for (const std::size_t i : some) fleet.cut(i);
      fleet.loop.run_for(fleet.random.between(100ms, 3s));
      break;
    case Fault::slow: {  // answers come before their deadline, and after it
      const Nanos jitter = fleet.random.between(12ms, 25ms);
      for (std::size_t i = 0; i < Fleet::kWorkers; ++i)
        if (fleet.workers[i] != nullptr) fleet.workers[i]->line.link.jitter = jitter;
      fleet.loop.run_for(fleet.random.between(2s, 6s));
      break;
    }
    case Fault::pause:
      for (const std::size_t i : some) fleet.stop(i);
      fleet.loop.run_for(fleet.random.between(10ms, 3s));
      break;
    case Fault::hang:
      fleet.server.hang();
      fleet.loop.run_for(fleet.random.between(100ms, 3s));
      fleet.server.go_on();
      break;
    case Fault::crash:
      for (const std::size_t i : some) fleet.crash(i);
      fleet.loop.run_for(fleet.random.between(100ms, 2s));
      break;
    case Fault::lose:  // a failover to a replica that lagged, or had nothing
    case Fault::stop: {
      const auto had = fleet.server.redis().keys();
      if (fault == Fault::lose) fleet.loop.run_for(fleet.random.between(0ns, 1s));
      fleet.server.stop();
      fleet.loop.run_for(fleet.random.between(100ms, 3s));
      if (fault == Fault::stop)
        fleet.server.start_with_what_it_had();
      else
        fleet.server.start_with(fleet.random.percent(50) ? had : testing::LuaRedis::Keys{});
      break;
    }
  }
  for (std::size_t i = 0; i < Fleet::kWorkers; ++i) fleet.mend(i);
}

class SharedLeaseFaults : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(SharedLeaseFaults, AreSurvived) {
  const std::uint64_t seed = GetParam();
  SCOPED_TRACE("WEIR_SIM_SEED=" + std::to_string(seed));
  Fleet fleet(seed);
  for (int round = 0; round < 8 && !HasFailure(); ++round) {
    expect_exact(fleet);
    const auto fault = static_cast<Fault>(fleet.random.below(7));
    SCOPED_TRACE("round " + std::to_string(round) + ", fault " +
                 std::to_string(static_cast<int>(fault)));
    fleet.most = fleet.lost = fleet.slots_lost = 0;
    play(fleet, fault);
    fleet.loop.run_for(fleet.random.between(0ns, 2s));
    // Without a store, or with a slow one, a unit is held under the limit, or of a part, and no
    // more: twice. Workers that are cut off keep what they had, which the store gives out again
    // once its leases are over; so does one that has lost them.
    const bool gives_again = fault == Fault::cut || fault == Fault::lose;
    EXPECT_LE(fleet.most, Fleet::kLimit * (gives_again ? 3U : 2U));
    // Only a store that has lost a lease says "gone" of one that was to stand.
    if (fault != Fault::lose) {
      EXPECT_EQ(fleet.lost, 0U);
    }
    // Nobody renews the slots of a process that is stopped.
    if (fault != Fault::lose && fault != Fault::pause) {
      EXPECT_EQ(fleet.slots_lost, 0U);
    }
  }
  expect_all_free(fleet);
  RecordProperty("repeated", std::to_string(fleet.repeated));
}

// WEIR_SIM_SEED=N runs that seed alone.
std::vector<std::uint64_t> seeds() {
  if (const char* one = std::getenv("WEIR_SIM_SEED")) return {std::strtoull(one, nullptr, 10)};
  return {21, 22, 23, 24};
}
INSTANTIATE_TEST_SUITE_P(Drawn, SharedLeaseFaults, ::testing::ValuesIn(seeds()));

TEST(SharedLeaseOfTwenty, TheHarnessSeesMoreThanTheLimit) {
  // The canary: workers that all take the whole limit for their part.
  Fleet fleet(5, [](std::uint32_t limit) { return limit; });
  fleet.loop.run_for(3s);
  fleet.server.stop();
  fleet.most = 0;
  fleet.loop.run_for(3s);
  EXPECT_GT(fleet.most, Fleet::kLimit * 2);
}

}  // namespace
}  // namespace weir::sim
