#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "guard/circuit_desk.h"
#include "testing/manual_clock.h"

namespace weir::guard {
namespace {

using namespace std::chrono_literals;

// A line whose calls wait for a test to answer them.
class HeldLine final : public StoreLine {
 public:
  struct Held {
    store::redis::StoreCall call;
    store::redis::CallHandler handler;
  };

  bool up(std::uint16_t) const override { return true; }
  bool answering(std::uint16_t) const noexcept override { return true; }
  bool in_loop() const noexcept override { return true; }
  void post(std::function<void()> what) override { what(); }
  void call(std::uint16_t, store::redis::StoreCall call, Nanos,
            store::redis::CallHandler handler) override {
    ++(call.script == nullptr ? looks : reads);
    held.push_back({std::move(call), std::move(handler)});
  }
  // Answers all that waits, as a store does that holds no record.
  void answer() {
    for (Held& each : std::exchange(held, {})) {
      store::redis::ReplyReader reader;
      std::string bytes = "$" + std::to_string(changes.size()) + "\r\n" + changes + "\r\n";
      if (each.call.script != nullptr) {
        bytes =
            "*" + std::to_string(2 + each.call.keys.size()) + "\r\n$1\r\n1\r\n$1\r\n0\r\n" + bytes;
        for (std::size_t i = 1; i < each.call.keys.size(); ++i) bytes += "$0\r\n\r\n";
      }
      reader.feed(bytes);
      ASSERT_EQ(reader.next(), store::redis::ReplyReader::Next::reply);
      const store::redis::Reply reply = reader.reply();
      each.handler(nullptr, &reply, false);
    }
  }

  std::vector<Held> held;
  std::string changes = "1";
  int looks = 0;  // whether anything has changed
  int reads = 0;  // what stands
};

class CircuitDeskOnALine : public ::testing::Test {
 protected:
  CircuitDeskOnALine()
      : desk_(line_, store::redis::KeySpace::make("weir", "weir").value(), clock_, 20ms, 1,
              [this](MonoTime when) { wake_ = when; }) {
    watch(1);
  }
  ~CircuitDeskOnALine() override { desk_.close(); }
  void watch(int breakers) {
    std::vector<Breaker> all;
    for (int i = 0; i < breakers; ++i)
      all.push_back(
          Breaker::make("payments" + std::to_string(i), {}, {.clock = &clock_, .seed = 1}).value());
    desk_.watch(all);
    settle();
    line_.looks = line_.reads = 0;
  }
  void settle() {
    while (!line_.held.empty()) line_.answer();
  }

  testing::ManualClock clock_;
  HeldLine line_;
  MonoTime wake_{};
  CircuitDesk desk_;
};

// One round trip from the message to the record.
TEST_F(CircuitDeskOnALine, ReadsAtOnceWhenItIsTold) {
  desk_.hinted("2");
  EXPECT_EQ(line_.reads, 1);
  EXPECT_EQ(line_.looks, 0);
}

TEST_F(CircuitDeskOnALine, AsksFirstWhetherAnythingHasChangedWhereThereIsMuchToRead) {
  watch(100);
  desk_.hinted("2");
  EXPECT_EQ(line_.looks, 1);
  EXPECT_EQ(line_.reads, 0);
  line_.changes = "2";
  line_.answer();
  EXPECT_EQ(line_.reads, 2);
}

TEST_F(CircuitDeskOnALine, ReadsAgainWhereItWasToldWhileItRead) {
  desk_.hinted("2");
  desk_.hinted("3");
  EXPECT_EQ(line_.reads, 1);
  line_.changes = "2";
  line_.answer();
  EXPECT_EQ(line_.reads, 2) << "what was read is older than the second hint";
}

TEST_F(CircuitDeskOnALine, WhatItHasReadAlreadyIsNoNews) {
  desk_.hinted("2");
  desk_.hinted("3");
  line_.changes = "3";
  settle();
  desk_.hinted("3");
  EXPECT_EQ(line_.reads, 1);
  EXPECT_TRUE(line_.held.empty());
}

TEST_F(CircuitDeskOnALine, SomeHintsMayFollowOneAnotherAndThenTheyWait) {
  for (int i = 0; i < CircuitDesk::kHintsAtOnce; ++i) {
    desk_.hinted(std::to_string(10 + i));
    EXPECT_EQ(line_.reads, i + 1);
    settle();
  }
  const MonoTime now = clock_.mono();
  desk_.hinted("20");
  EXPECT_EQ(line_.reads, CircuitDesk::kHintsAtOnce);
  EXPECT_EQ(wake_, now + CircuitDesk::kHintPace);
  clock_.advance(CircuitDesk::kHintPace);
  line_.changes = "20";
  desk_.on_wake();
  settle();
  EXPECT_EQ(line_.reads, CircuitDesk::kHintsAtOnce + 1);
}

TEST_F(CircuitDeskOnALine, AHintThatMustWaitDoesNotPutOffItsOwnLook) {
  const MonoTime look = wake_;
  clock_.advance(look - clock_.mono() - 10ms);
  for (int i = 0; i < CircuitDesk::kHintsAtOnce; ++i) {
    desk_.hinted(std::to_string(10 + i));
    settle();
  }
  desk_.hinted("20");
  EXPECT_EQ(wake_, look);
  clock_.advance(10ms);
  line_.changes = "20";
  desk_.on_wake();
  settle();
  EXPECT_EQ(line_.reads, CircuitDesk::kHintsAtOnce + 1) << "and that one serves it";
}

TEST_F(CircuitDeskOnALine, ADelugeOfHintsCostsOneLookInItsPace) {
  for (int i = 0; i < 100'000; ++i) {
    desk_.hinted(std::to_string(2 + i));
    if (i % 100 == 0) settle();
    clock_.advance(10us);
    if (clock_.mono() >= wake_) desk_.on_wake();
  }
  // A second of hints: one in 50 ms for them, with those that may follow one another; and one in 80
  // at the most, and a reading of everything, for itself.
  EXPECT_LE(line_.looks + line_.reads, 21 + CircuitDesk::kHintsAtOnce + 13 + 1);
  EXPECT_GE(line_.looks + line_.reads, 19);
}

TEST_F(CircuitDeskOnALine, LooksByItselfWhereNobodyTellsItAnything) {
  const MonoTime begun = clock_.mono();
  while (clock_.mono() < begun + 1s) {
    clock_.advance(wake_ - clock_.mono());
    desk_.on_wake();
    settle();
  }
  EXPECT_GE(line_.looks, 8);
  EXPECT_LE(line_.looks, 13);
}

}  // namespace
}  // namespace weir::guard
