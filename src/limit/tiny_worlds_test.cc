// Every sequence of a few acts in worlds so small that they can all be tried: limits up to three,
// periods of a few nanoseconds. Each answer of the real steps is compared with the model's.

#include <gtest/gtest.h>

#include "testing/step_trace.h"

namespace weir::limit {
namespace {

using testing::Act;
using testing::SideBySide;

const std::vector<Act>& acts() {
  static const std::vector<Act> all = [] {
    std::vector<Act> made;
    for (const std::int64_t advance : {0, 1, 3}) {
      made.push_back({advance, Act::Kind::take, 0, 0});
      made.push_back({advance, Act::Kind::take, 1, 0});
      made.push_back({advance, Act::Kind::take, 2, 0});
      made.push_back({advance, Act::Kind::drain, 3, 0});
      made.push_back({advance, Act::Kind::refund, 1, 0});
    }
    made.push_back({-2, Act::Kind::take, 1, 0});
    made.push_back({1, Act::Kind::change, 3, 0});
    made.push_back({1, Act::Kind::change, 1, 0});
    made.push_back({0, Act::Kind::refund, 3, 1});
    return made;
  }();
  return all;
}

// Returns false at the first difference, having said it.
bool explore(const SideBySide& world, int depth, std::vector<Act>& trail) {
  if (depth == 0) return true;
  for (const Act& act : acts()) {
    SideBySide next = world;
    trail.push_back(act);
    if (const auto difference = next.act(act)) {
      for (const Act& past : trail) ADD_FAILURE() << past;
      ADD_FAILURE() << *difference;
      return false;
    }
    if (!explore(next, depth - 1, trail)) return false;
    trail.pop_back();
  }
  return true;
}

void explore(const Request& request, int depth) {
  const auto numbers = Numbers::make(request);
  ASSERT_TRUE(numbers) << numbers.error().message;
  std::vector<Act> trail;
  explore(SideBySide(*numbers, Instant{Nanos(1'000'003)}), depth, trail);
}

class TinyWorlds : public ::testing::TestWithParam<Algorithm> {};

TEST_P(TinyWorlds, AgreeWithTheModelOverEverySequence) {
  for (const std::int64_t period : {1, 3, 6}) {
    for (const std::uint64_t limit : {1U, 3U}) {
      if (period == 1 && limit == 3 && GetParam() == Algorithm::gcra) continue;
      SCOPED_TRACE(std::to_string(limit) + " per " + std::to_string(period) + " ns");
      explore({.algorithm = GetParam(), .limit = limit, .period = {Nanos(period)}}, 3);
    }
  }
  explore({.algorithm = GetParam(), .limit = 2, .period = {Nanos(4)}}, 4);
  explore({.algorithm = GetParam(), .limit = 3, .period = {Nanos(6)}}, 4);
}

TEST(TinyWorldsOfGcra, AgreeWithTheModelForBurstsOfEverySize) {
  for (const std::uint64_t burst : {1U, 2U, 5U}) {
    explore({.algorithm = Algorithm::gcra, .limit = 2, .period = {Nanos(4)}, .burst = burst}, 3);
  }
}

TEST(TinyWorldsOfZero, ALimitOfZeroBlocksOverEverySequence) {
  for (const Algorithm algorithm : {Algorithm::gcra, Algorithm::fixed_window,
                                    Algorithm::sliding_window, Algorithm::sliding_log}) {
    explore({.algorithm = algorithm, .limit = 0, .period = {Nanos(4)}}, 3);
  }
}

// The harness can fail: a step whose limit is one too many is found out.
TEST_P(TinyWorlds, WouldNoticeOneUnitTooMany) {
  const auto wrong =
      Numbers::make({.algorithm = GetParam(), .limit = 4, .period = {Nanos(12)}}).value();
  const auto right =
      Numbers::make({.algorithm = GetParam(), .limit = 3, .period = {Nanos(12)}}).value();
  SideBySide world(wrong, right, Instant{Nanos(1'000'003)});
  EXPECT_TRUE(world.act({0, Act::Kind::take, 1, 0}));
}

INSTANTIATE_TEST_SUITE_P(Algorithms, TinyWorlds,
                         ::testing::Values(Algorithm::gcra, Algorithm::fixed_window,
                                           Algorithm::sliding_window, Algorithm::sliding_log),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

}  // namespace
}  // namespace weir::limit
