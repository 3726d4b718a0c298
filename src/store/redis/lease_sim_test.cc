#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "testing/lease_rig.h"

// Every order in which two and three holders can reach the store, on the script that ships, beside
// a model that is obviously right: a list of leases and their ends.

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using Kind = LeaseAction::Kind;
using Outcome = LeaseReply::Outcome;
using testing::LeaseRig;

enum class Step : std::uint8_t {
  acquire,
  acquire_two,  // a weight of two
  renew,
  release,
  keep,    // what it holds, as if it had been renewed without the store
  forget,  // it dies, and another takes its place under a new id
  wait,    // 600 ms pass: more than half of a lease
};

struct Holder {
  std::string name;
  std::vector<Step> steps;
  std::size_t next = 0;
  int life = 0;

  std::string id() const { return name + std::to_string(life); }
};

class World {
 public:
  World(LeaseRig& rig, std::vector<Holder> holders, std::uint32_t limit)
      : rig_(rig), holders_(std::move(holders)) {
    ConcurrencyConfig config = LeaseRig::config();
    config.limit = limit;
    config.max_hold = 1500ms;
    rig_.begin(config);
  }

  void step(std::size_t i) {
    Holder& holder = holders_[i];
    const Step step = holder.steps[holder.next++];
    if (step == Step::wait) {
      rig_.redis.advance(600ms);
      return;
    }
    if (step == Step::forget) {
      ++holder.life;
      return;
    }
    const Instant now = rig_.redis.now();
    std::erase_if(model_, [&](const auto& each) { return each.second.ends <= now; });
    act(holder.id(), step, now);
    EXPECT_EQ(rig_.stored(), model_.size());
  }

  // What has ended is free, whatever happened.
  void must_come_free() {
    rig_.redis.advance(2s);
    EXPECT_EQ(rig_.acquire("last", rig_.numbers.limit).outcome, Outcome::done);
    EXPECT_EQ(rig_.stored(), 1U);
  }
  void plant(const std::string& id) {
    model_[id] = {1, 1, rig_.redis.now(), rig_.redis.now() + 1s};
  }

 private:
  struct Held {
    std::uint32_t weight = 1;
    std::uint64_t fence = 0;
    Instant born{};
    Instant ends{};
  };

  std::uint64_t units() const {
    std::uint64_t sum = 0;
    for (const auto& [id, held] : model_) sum += held.weight;
    return sum;
  }

  void act(const std::string& id, Step step, Instant now) {
    const auto mine = model_.find(id);
    const bool stands = mine != model_.end();
    switch (step) {
      case Step::acquire:
      case Step::acquire_two: {
        const std::uint32_t weight = step == Step::acquire ? 1 : 2;
        const LeaseReply reply = rig_.acquire(id, weight);
        Outcome right = Outcome::done;
        if (stands)
          right = mine->second.weight == weight ? Outcome::stood : Outcome::held_otherwise;
        else if (weight > rig_.numbers.limit)
          right = Outcome::above_limit;
        else if (units() + weight > rig_.numbers.limit)
          right = Outcome::full;
        EXPECT_EQ(reply.outcome, right) << id;
        if (right == Outcome::done) {
          EXPECT_GT(reply.fence, last_fence_);
          last_fence_ = reply.fence;
          model_[id] = {weight, reply.fence, now, now + 1s};
        }
        if (right == Outcome::stood) {
          EXPECT_EQ(reply.fence, mine->second.fence);
        }
        EXPECT_EQ(reply.held, units());
        return;
      }
      case Step::renew: {
        const LeaseReply reply = rig_.renew(id);
        EXPECT_EQ(reply.outcome, stands ? Outcome::done : Outcome::none) << id;
        if (!stands) return;
        mine->second.ends =
            std::max(mine->second.ends, std::min<Instant>(now + 1s, mine->second.born + 1500ms));
        EXPECT_EQ(reply.left, mine->second.ends - now);
        return;
      }
      case Step::release: {
        EXPECT_EQ(rig_.release(id).outcome, stands ? Outcome::done : Outcome::none) << id;
        model_.erase(id);
        return;
      }
      case Step::keep: {
        const LeaseReply reply = rig_.run({.kind = Kind::keep,
                                           .id = id,
                                           .weight = 1,
                                           .fence = last_fence_,
                                           .held_for = 500ms,
                                           .left = 1s});
        EXPECT_EQ(reply.outcome, stands ? Outcome::stood : Outcome::done) << id;
        if (!stands)
          model_[id] = {1, last_fence_, now - 500ms, now + 1s};
        else
          mine->second.ends =
              std::max(mine->second.ends, std::min<Instant>(now + 1s, mine->second.born + 1500ms));
        EXPECT_EQ(reply.held, units());
        return;
      }
      case Step::forget:
      case Step::wait:
        return;
    }
  }

  LeaseRig& rig_;
  std::vector<Holder> holders_;
  std::map<std::string, Held> model_;
  std::uint64_t last_fence_ = 0;
};

std::size_t explore(const std::vector<Holder>& holders, std::uint32_t limit) {
  std::vector<std::size_t> slots;
  for (std::size_t i = 0; i < holders.size(); ++i)
    slots.insert(slots.end(), holders[i].steps.size(), i);
  std::size_t runs = 0;
  LeaseRig rig;
  do {
    World world(rig, holders, limit);
    std::string order;
    for (const std::size_t i : slots) {
      order += holders[i].name;
      world.step(i);
    }
    world.must_come_free();
    ++runs;
    if (::testing::Test::HasFailure()) {
      ADD_FAILURE() << "in the order " << order;
      return runs;
    }
  } while (std::next_permutation(slots.begin(), slots.end()));
  return runs;
}

TEST(LeaseOrders, TwoHoldersOfOneUnit) {
  EXPECT_EQ(explore({{"a", {Step::acquire, Step::wait, Step::renew, Step::wait, Step::release}},
                     {"b", {Step::acquire, Step::wait, Step::acquire, Step::renew, Step::release}}},
                    1),
            252U);
}

TEST(LeaseOrders, AHolderThatDiesAndAnotherThatTakesItsPlace) {
  EXPECT_EQ(
      explore(
          {{"a",
            {Step::acquire, Step::forget, Step::acquire, Step::wait, Step::wait, Step::acquire,
             Step::release}},
           {"b",
            {Step::acquire, Step::wait, Step::renew, Step::release, Step::release, Step::acquire}}},
          2),
      1'716U);
}

TEST(LeaseOrders, ThreeHoldersWithWeights) {
  EXPECT_EQ(explore({{"a", {Step::acquire_two, Step::wait, Step::renew, Step::release}},
                     {"b", {Step::acquire, Step::wait, Step::acquire_two, Step::release}},
                     {"c", {Step::acquire, Step::renew, Step::wait}}},
                    2),
            11'550U);
}

TEST(LeaseOrders, WhatWasGivenWithoutTheStoreIsCountedOnceWheneverItIsTold) {
  EXPECT_EQ(explore({{"a", {Step::keep, Step::wait, Step::renew, Step::keep, Step::release}},
                     {"b", {Step::acquire, Step::keep, Step::wait, Step::release}},
                     {"c", {Step::acquire, Step::release}}},
                    2),
            6'930U);
}

TEST(LeaseOrders, TheExplorerFindsALeaseThatIsNotThere) {
  // The canary: the model believes in a lease that the store never gave.
  LeaseRig rig;
  World world(rig, {{"a", {Step::release}}}, 1);
  world.plant("a0");
  EXPECT_NONFATAL_FAILURE(world.step(0), "a0");
}

}  // namespace
}  // namespace weir::store::redis
