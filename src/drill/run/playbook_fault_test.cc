#include "drill/run/playbook.h"

#include <gtest/gtest.h>

namespace weir::drill {
namespace {

using namespace std::chrono_literals;

TEST(Playbook, BeginsEachPhaseFlapsInItAndEndsWithNoFault) {
  const Scenario scenario = parse_scenario(R"(
phases:
  - {name: before, for: 1s}
  - {name: flapping, for: 2500ms, store: refuse, flap: 1s}
  - {name: after, for: 3s}
)",
                                           "s", "s")
                                .value();
  const Playbook book(scenario);
  struct Row {
    Nanos at;
    std::size_t phase;
    bool begins;
    bool faulty;
  };
  const Row rows[] = {{0s, 0, true, true},  {1s, 1, true, true},     {2s, 1, false, false},
                      {3s, 1, false, true}, {3500ms, 2, true, true}, {6500ms, 2, false, false}};
  ASSERT_EQ(book.moves().size(), std::size(rows));
  for (std::size_t i = 0; i < std::size(rows); ++i) {
    EXPECT_EQ(book.moves()[i].at, rows[i].at) << i;
    EXPECT_EQ(book.moves()[i].phase, rows[i].phase) << i;
    EXPECT_EQ(book.moves()[i].begins, rows[i].begins) << i;
    EXPECT_EQ(book.moves()[i].faulty, rows[i].faulty) << i;
  }
}

TEST(Playbook, TellsTheProxyWhatThePhaseSays) {
  const Scenario scenario = parse_scenario(R"(
phases:
  - {name: before, for: 1s}
  - {name: slow, for: 1s, delay: 5ms, jitter: 1ms}
  - {name: narrow, for: 1s, capacity: 50}
)",
                                           "s", "s")
                                .value();
  Playbook book(scenario);
  const auto proxy = FaultProxy::start({.target = "127.0.0.1:9"}).value();
  book.make(book.moves()[0], *proxy);
  EXPECT_EQ(proxy->faults(), ProxyFaults{});
  book.make(book.moves()[1], *proxy);
  EXPECT_EQ(proxy->faults(), ProxyFaults::slow(5ms, 1ms));
  book.make(book.moves()[2], *proxy);
  EXPECT_EQ(proxy->faults().reply_rate, 1U) << "nothing passed in the first phase";
  book.make(book.moves()[3], *proxy);
  EXPECT_EQ(proxy->faults(), ProxyFaults{});
}

}  // namespace
}  // namespace weir::drill
