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
    if (call.script == nullptr) ++looks;
    held.push_back({std::move(call), std::move(handler)});
  }
  // Answers all that waits, as a store does that holds nothing.
  void answer() {
    for (Held& each : std::exchange(held, {})) {
      store::redis::ReplyReader reader;
      std::string bytes = "$-1\r\n";
      if (each.call.script != nullptr) {
        bytes = "*" + std::to_string(2 + each.call.keys.size()) + "\r\n$1\r\n1\r\n$1\r\n0\r\n";
        for (std::size_t i = 0; i < each.call.keys.size(); ++i) bytes += "$0\r\n\r\n";
      }
      reader.feed(bytes);
      ASSERT_EQ(reader.next(), store::redis::ReplyReader::Next::reply);
      const store::redis::Reply reply = reader.reply();
      each.handler(nullptr, &reply, false);
    }
  }

  std::vector<Held> held;
  int looks = 0;
};

class CircuitDeskOnALine : public ::testing::Test {
 protected:
  CircuitDeskOnALine()
      : desk_(line_, store::redis::KeySpace::make("weir", "weir").value(), clock_, 20ms, 1,
              [this](MonoTime when) { wake_ = when; }) {
    desk_.watch({Breaker::make("payments", {}, {.clock = &clock_, .seed = 1}).value()});
    settle();
    line_.looks = 0;
  }
  ~CircuitDeskOnALine() override { desk_.close(); }
  void settle() {
    while (!line_.held.empty()) line_.answer();
  }

  testing::ManualClock clock_;
  HeldLine line_;
  MonoTime wake_{};
  CircuitDesk desk_;
};

TEST_F(CircuitDeskOnALine, LooksAtOnceWhenItIsTold) {
  desk_.hinted();
  EXPECT_EQ(line_.looks, 1);
}

TEST_F(CircuitDeskOnALine, LooksAgainWhereItWasToldWhileItLooked) {
  desk_.hinted();
  desk_.hinted();
  EXPECT_EQ(line_.looks, 1);
  settle();
  // What was read may be older than the second hint; but not sooner than the pace allows.
  EXPECT_EQ(line_.looks, 1);
  EXPECT_EQ(wake_, clock_.mono() + CircuitDesk::kHintPace);
  clock_.advance(CircuitDesk::kHintPace);
  desk_.on_wake();
  EXPECT_EQ(line_.looks, 2);
}

TEST_F(CircuitDeskOnALine, ADelugeOfHintsCostsOneLookInItsPace) {
  for (int i = 0; i < 100'000; ++i) {
    desk_.hinted();
    if (i % 100 == 0) settle();
    clock_.advance(10us);
    if (clock_.mono() >= wake_) desk_.on_wake();
  }
  // A second of hints: one look in 50 ms for them, and one in 80 at the most for itself.
  EXPECT_LE(line_.looks, 21 + 13);
  EXPECT_GE(line_.looks, 19);
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
