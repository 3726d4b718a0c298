#pragma once

// For tests of ShardDriver: one rule, and a driver on a simulated server.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "guard/shard_driver.h"
#include "guard/split_ask.h"
#include "policy/key.h"
#include "testing/sim/sim_redis.h"

namespace weir::guard {

inline constexpr Nanos kDriverDeadline = std::chrono::milliseconds(20);
inline constexpr policy::Overspend kForgiveAll{.mode = policy::OverspendMode::forgive};

// One rule with one counter.
class OneRule {
 public:
  OneRule(Algorithm algorithm, std::uint64_t limit, Nanos period, std::uint64_t identity = 7)
      : identity_(identity),
        numbers_(limit::Numbers::make(
                     {.algorithm = algorithm, .limit = limit, .period = {.length = period}})
                     .value()) {
    std::vector<char> buffer(policy::KeyWriter::kMaxKeyBytes);
    key_ = std::string(policy::KeyWriter(buffer.data(), identity).view());
  }
  store::Counter counter(std::uint64_t cost) const {
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
class DriverRig : private ShardDriver::Host {
 public:
  enum class Start : std::uint8_t { guest, worker, without_store };
  explicit DriverRig(FailurePolicy policy, const OneRule& rule, std::uint64_t seed = 1,
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
    loop.run_for(std::chrono::milliseconds(100));
    if (start == Start::without_store) driver.started_without();
  }
  ~DriverRig() override { driver.stop(); }

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
    DriverRig* rig = nullptr;
    store::Counter counter;
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
      asked.request.overspend = &kForgiveAll;
    }
    asked.answer_by = loop.mono() + kDriverDeadline;
    asked.loaded_at = Instant{std::chrono::seconds(1)};
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
    loop.run_for(kDriverDeadline);
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
    loop.run_for(kDriverDeadline);
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

  testing::SimLoop loop;
  testing::SimRedis redis;
  testing::SimLink link;
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
    spec.deadline = kDriverDeadline;
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
  const OneRule& rule_;
  testing::SimWire wire_;
  std::uint64_t wake_ = 0;
  std::vector<std::unique_ptr<Asked>> asks_;

 public:
  ShardDriver driver;
};

}  // namespace weir::guard
