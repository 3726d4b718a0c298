#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "testing/circuit_rig.h"

// Every order in which two and three workers can reach the store, on the script that ships. A
// script is atomic, so an order of calls, with the time that passes between them, is all that can
// differ.

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using Flag = CircuitAction::Flag;
using Kind = CircuitAction::Kind;
using Outcome = CircuitReply::Outcome;
using State = CircuitRecord::State;
using testing::CircuitRig;

// What one worker wants of the store, one after the other.
enum class Step : std::uint8_t {
  vote_bad,
  vote_good,
  probe,
  settle_ok,  // the probe that it had last, if it had one
  settle_failed,
  die,        // forgets its probe
  wait,       // 500 ms pass: more than a probe's deadline, half of the wait
  lose,       // the store's own: the record is gone
  roll_back,  // a failover: the last change of the record never was
};

struct Worker {
  std::uint64_t who = 1;
  std::vector<Step> steps;
  std::size_t next = 0;
  std::uint64_t epoch = 0;  // as it last read it: workers act on what they know, not on what is
  std::optional<CircuitReply> probe;
  bool lost = false;  // the store does not know of it any more
};

// The world after some calls, and what must have held at each of them.
class World {
 public:
  World(CircuitRig& rig, std::vector<Worker> workers, const BreakerConfig& config)
      : rig_(rig), workers_(std::move(workers)) {
    rig_.begin(config);
  }

  bool over() const {
    return std::all_of(workers_.begin(), workers_.end(),
                       [](const Worker& w) { return w.next == w.steps.size(); });
  }

  void step(std::size_t i) {
    Worker& worker = workers_[i];
    const Step step = worker.steps[worker.next++];
    const CircuitRecord before = rig_.read().record;
    const std::string bytes = rig_.bytes();
    if (step == Step::wait) {
      rig_.redis.advance(500ms);
      return;
    }
    if (step == Step::die) {
      worker.probe.reset();
      return;
    }
    if (step == Step::lose || step == Step::roll_back) {
      rig_.redis.advance(100ms);
      rig_.redis.restart_with(step == Step::lose ? testing::LuaRedis::Keys{} : before_last_);
      forget_lost_probes();
      return;
    }
    const testing::LuaRedis::Keys keys = rig_.redis.keys();
    if ((step == Step::settle_ok || step == Step::settle_failed) && !worker.probe) return;
    const CircuitReply reply = act(worker, step);
    worker.epoch = reply.kept ? reply.record.epoch : 0;
    if (rig_.bytes() != bytes) before_last_ = keys;
    check(step, before, bytes, reply);
    const bool settles = step == Step::settle_ok || step == Step::settle_failed;
    if (settles && worker.lost) {
      EXPECT_EQ(reply.outcome, Outcome::stale) << "the store had lost that probe";
    }
    if (step == Step::probe && reply.outcome == Outcome::probe_may_go) worker.lost = false;
  }

  // After enough time, whatever happened, a worker that goes on asking gets its probe or finds it
  // closed: nothing wedges.
  void must_recover() {
    for (int i = 0; i < 200; ++i) {
      rig_.redis.advance(500ms);
      const CircuitReply reply = rig_.probe(99);
      if (reply.record.state == State::closed) return;
      if (reply.outcome == Outcome::probe_may_go) rig_.settle(99, reply, Flag::ok);
      if (rig_.read().record.state == State::closed) return;
    }
    ADD_FAILURE() << "it never closed again";
  }

 private:
  CircuitReply act(Worker& worker, Step step) {
    switch (step) {
      case Step::vote_bad:
      case Step::vote_good:
        return rig_.run({.kind = Kind::vote,
                         .who = worker.who,
                         .epoch = worker.epoch,
                         .flag = step == Step::vote_bad ? Flag::bad : Flag::good,
                         .lasts = 10s});
      case Step::probe: {
        CircuitReply reply = rig_.probe(worker.who);
        if (reply.outcome == Outcome::probe_may_go) {
          EXPECT_TRUE(numbers_.insert(reply.probe).second) << "two probes of one number";
          worker.probe = reply;
        }
        return reply;
      }
      case Step::settle_ok:
      case Step::settle_failed: {
        const CircuitReply probe = *worker.probe;
        worker.probe.reset();
        const CircuitReply reply =
            rig_.settle(worker.who, probe, step == Step::settle_ok ? Flag::ok : Flag::failed);
        settled_ = probe.record.round;
        return reply;
      }
      case Step::die:
      case Step::wait:
      case Step::lose:
      case Step::roll_back:
        break;
    }
    return rig_.read();
  }

  void forget_lost_probes() {
    const CircuitRecord now = rig_.read().record;
    for (Worker& worker : workers_) {
      if (!worker.probe) continue;
      worker.lost |= std::none_of(now.probes.begin(), now.probes.end(), [&](const auto& probe) {
        return probe.who == worker.who && probe.number == worker.probe->probe;
      });
    }
  }

  void check(Step step, const CircuitRecord& before, const std::string& bytes,
             const CircuitReply& reply) {
    const CircuitRecord& after = reply.record;
    EXPECT_GE(after.epoch, before.epoch) << "an epoch went back";
    if (after.state != before.state) {
      EXPECT_GT(after.epoch, before.epoch);
    }
    const bool moved = after.epoch != before.epoch;
    if (reply.outcome == Outcome::no_probe && !moved) {
      EXPECT_EQ(rig_.bytes(), bytes) << "a denial was written";
    }
    if (reply.outcome == Outcome::stale && !moved) {
      EXPECT_EQ(rig_.bytes(), bytes) << "what came late was written";
    }
    if (before.state == State::open && !moved) {
      EXPECT_EQ(after.until, before.until);
    }
    if (before.state == State::open && after.state != State::open) {
      EXPECT_GE(reply.now, before.until) << "left before its wait was over";
    }
    const auto live =
        std::count_if(after.probes.begin(), after.probes.end(),
                      [&](const CircuitRecord::Probe& p) { return p.till > reply.now; });
    EXPECT_LE(live, static_cast<std::ptrdiff_t>(rig_.numbers.probes_in_flight));
    EXPECT_LE(static_cast<std::uint32_t>(live) + after.ok + after.failed, rig_.numbers.probes);
    // Closed from half-open only by the votes of this very round.
    const bool settles = step == Step::settle_ok || step == Step::settle_failed;
    if (before.state == State::half_open && after.state == State::closed) {
      EXPECT_EQ(step, Step::settle_ok);
      EXPECT_EQ(before.ok + 1, rig_.numbers.probe_successes);
    }
    if (settles && settled_ != before.round) {
      EXPECT_EQ(reply.outcome, Outcome::stale);
    }
    const auto expires = rig_.expires_at();
    EXPECT_TRUE(rig_.bytes().empty() || (expires && *expires > reply.now));
  }

  CircuitRig& rig_;
  std::vector<Worker> workers_;
  std::set<std::uint32_t> numbers_;
  testing::LuaRedis::Keys before_last_;
  std::uint32_t settled_ = 0;
};

std::string name_of(const std::vector<std::size_t>& order) {
  std::string out;
  for (const std::size_t i : order) out += static_cast<char>('a' + i);
  return out;
}

// Whether the workers begin one after the other as they are listed: of workers that are alike,
// every order is one of these with other names.
bool begin_in_turn(const std::vector<std::size_t>& order) {
  std::size_t begun = 0;
  for (const std::size_t i : order) {
    if (i > begun) return false;
    if (i == begun) ++begun;
  }
  return true;
}

enum class Workers : std::uint8_t { differ, are_alike };

// Runs every order; returns how many there were.
std::size_t explore(Workers kind, const std::vector<Worker>& workers, const BreakerConfig& config) {
  std::vector<std::size_t> slots;
  for (std::size_t i = 0; i < workers.size(); ++i)
    slots.insert(slots.end(), workers[i].steps.size(), i);
  std::size_t runs = 0;
  CircuitRig rig;
  do {
    if (kind == Workers::are_alike && !begin_in_turn(slots)) continue;
    World world(rig, workers, config);
    for (const std::size_t i : slots) world.step(i);
    EXPECT_TRUE(world.over());
    world.must_recover();
    ++runs;
    if (::testing::Test::HasFailure()) {
      ADD_FAILURE() << "in the order " << name_of(slots);
      return runs;
    }
  } while (std::next_permutation(slots.begin(), slots.end()));
  return runs;
}

Worker worker(std::uint64_t who, std::vector<Step> steps) {
  return {.who = who, .steps = std::move(steps)};
}

TEST(CircuitOrders, TwoWorkersThatTripProbeAndSettle) {
  const std::vector<Step> all{Step::vote_bad,  Step::wait,  Step::wait,         Step::probe,
                              Step::settle_ok, Step::probe, Step::settle_failed};
  EXPECT_EQ(explore(Workers::are_alike, {worker(1, all), worker(2, all)}, CircuitRig::config()),
            1'716U);
}

TEST(CircuitOrders, TwoWorkersOfWhomOneDiesInItsProbe) {
  EXPECT_EQ(explore(Workers::differ,
                    {worker(1, {Step::vote_bad, Step::wait, Step::wait, Step::probe, Step::die,
                                Step::wait, Step::probe, Step::settle_ok}),
                     worker(2, {Step::vote_good, Step::vote_bad, Step::probe, Step::wait,
                                Step::settle_ok, Step::probe, Step::settle_ok})},
                    CircuitRig::config()),
            6'435U);
}

TEST(CircuitOrders, TwoWorkersWhoseLateResultsMeetALaterRound) {
  BreakerConfig config = CircuitRig::config();
  config.max_half_open = 1s;
  config.probe_deadline = 1s;
  EXPECT_EQ(explore(Workers::differ,
                    {worker(1, {Step::vote_bad, Step::wait, Step::wait, Step::probe, Step::wait,
                                Step::wait, Step::wait, Step::settle_ok}),
                     worker(2, {Step::probe, Step::wait, Step::wait, Step::probe, Step::settle_ok,
                                Step::probe, Step::settle_failed})},
                    config),
            6'435U);
}

TEST(CircuitOrders, TwoWorkersWhoseRecordIsLostOrGoesBack) {
  // The third is the store.
  for (const Step fault : {Step::lose, Step::roll_back}) {
    EXPECT_EQ(explore(Workers::differ,
                      {worker(1, {Step::vote_bad, Step::wait, Step::wait, Step::probe,
                                  Step::settle_ok, Step::probe, Step::settle_ok}),
                       worker(2, {Step::probe, Step::settle_failed}), worker(3, {fault})},
                      CircuitRig::config()),
              360U);
  }
}

TEST(CircuitOrders, ThreeWorkersAtTheEdge) {
  const std::vector<Step> all{Step::vote_bad, Step::wait, Step::probe, Step::settle_ok};
  EXPECT_EQ(explore(Workers::are_alike, {worker(1, all), worker(2, all), worker(3, all)},
                    CircuitRig::config()),
            5'775U);
}

TEST(CircuitOrders, ThreeWorkersWithTwoProbesAtOnce) {
  BreakerConfig config = CircuitRig::config();
  config.probes = 2;
  config.probes_in_flight = 2;
  EXPECT_EQ(explore(Workers::differ,
                    {worker(1, {Step::vote_bad, Step::wait, Step::wait, Step::probe}),
                     worker(2, {Step::vote_bad, Step::probe, Step::settle_failed}),
                     worker(3, {Step::probe, Step::settle_ok, Step::probe, Step::settle_ok})},
                    config),
            11'550U);
}

TEST(CircuitOrders, TheExplorerFindsAWorldThatBreaksItsPromises) {
  // The canary: with no probe ever allowed to succeed, recovery must be reported missing.
  BreakerConfig config = CircuitRig::config();
  config.probes = 1;
  config.probe_successes = 2;  // check_breaker_config() refuses this
  CircuitRig rig;
  World world(rig, {worker(1, {Step::vote_bad})}, config);
  world.step(0);
  EXPECT_NONFATAL_FAILURE(world.must_recover(), "it never closed again");
}

}  // namespace
}  // namespace weir::store::redis
