// Several workers on one store.

#include <gtest/gtest.h>

#include "fault_rig.h"

namespace weir::fault {
namespace {

using testing::RedisServer;
using namespace std::chrono_literals;

std::uint64_t script_calls(RedisServer& server) {
  const std::string stats = server.text({"INFO", "commandstats"});
  const std::string name = "cmdstat_evalsha:calls=";
  const std::size_t at = stats.find(name);
  return at == std::string::npos ? 0 : std::stoull(stats.substr(at + name.size()));
}

// Half of a fleet has loaded a policy with a new limit, the other has not yet: on one hot key.
TEST(GuardsWithDifferentNumbers, DoNotConvertAHotKeyBackAndForth) {
  RedisServer server;
  Guard older =
      Guard::open(policy_on(server.port(), {.deadline = "5s", .search = 400}), {}).value();
  std::this_thread::sleep_for(5ms);  // so that one load is the newer one
  Guard newer =
      Guard::open(policy_on(server.port(), {.deadline = "5s", .search = 600}), {}).value();
  ASSERT_TRUE(until_store(older, "search", "hot"));
  ASSERT_TRUE(until_store(newer, "search", "hot"));
  const std::uint64_t calls_before = script_calls(server);
  Load first(older, "search", "hot", 2);
  Load second(newer, "search", "hot", 2);
  EXPECT_TRUE(eventually([&] { return first.asked() > 500 && second.asked() > 500; }));
  const Tally a = first.stop();
  const Tally b = second.stop();
  EXPECT_EQ(a.broken + b.broken, 0u) << a.example << b.example;
  // The newer numbers hold for everybody from the first time that they are told.
  const std::uint64_t admitted = a.allowed() + b.allowed();
  EXPECT_LE(admitted, 600u);
  EXPECT_GE(admitted, 400u);
  EXPECT_GE(a.asked + b.asked, 1000u);
  if (a.asked + b.asked >= 700 + 600) {
    EXPECT_EQ(admitted, 600u);
  }
  // And nobody pays more than an extra round trip for it.
  EXPECT_LE(script_calls(server) - calls_before, 2 * (a.asked + b.asked));
  EXPECT_EQ(immortal_keys(server), "");
}

// What remains is told beside the limit that it is of.
TEST(GuardsWithDifferentNumbers, AreBothAnsweredUnderTheNewerOnes) {
  RedisServer server;
  Guard older = Guard::open(policy_on(server.port(), {.deadline = "5s", .search = 10}), {}).value();
  std::this_thread::sleep_for(5ms);
  Guard newer = Guard::open(policy_on(server.port(), {.deadline = "5s", .search = 30}), {}).value();
  Tally tally;
  const auto said = [](const Decision& decision) {
    return std::pair(decision.rules()[0].limit, decision.rules()[0].remaining.value());
  };
  EXPECT_EQ(said(check(older, "search", "u", tally)),
            std::pair(std::uint64_t{10}, std::uint64_t{9}));
  EXPECT_EQ(said(check(newer, "search", "u", tally)),
            std::pair(std::uint64_t{30}, std::uint64_t{28}));
  EXPECT_EQ(said(check(older, "search", "u", tally)),
            std::pair(std::uint64_t{30}, std::uint64_t{27}));
}

}  // namespace
}  // namespace weir::fault
