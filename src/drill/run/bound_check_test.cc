#include "drill/run/bound_check.h"

#include <gtest/gtest.h>

#include "policy/model.h"
#include "weir/policy.h"

namespace weir::drill {
namespace {

using namespace std::chrono_literals;

// Ten a second, in aligned seconds and in any second, of one route that is bounded.
constexpr const char* kPolicy = R"(
store: {url: 'redis://127.0.0.1:1', workers: {of: 2, index: 0}}
inputs: [user]
routes:
  fixed:
    limits: [{requests: 10, per: second, by: [user], algorithm: fixed_window}]
    protects: capacity
  log:
    limits: [{requests: 10, per: second, by: [user], algorithm: sliding_log}]
    protects: capacity
  all:
    limits: [{requests: 10, per: second, algorithm: fixed_window}]
    protects: security
)";

Scenario outage() {
  return parse_scenario("phases: [{name: a, for: 1s}, {name: b, for: 1s, store: refuse}]", "s", "s")
      .value();
}

class BoundCheckTest : public ::testing::Test {
 protected:
  BoundCheck check(std::size_t route, const std::vector<Admission>& admissions) {
    const policy::Model& model = policy_.model();
    return check_bounds(model, model.routes[route], admissions, outage()).at(0);
  }
  // `count` calls of one client, a millisecond long each and a millisecond apart.
  static std::vector<Admission> calls(Nanos from, int count, std::uint32_t client = 0) {
    std::vector<Admission> made;
    for (int i = 0; i < count; ++i) {
      const Instant at{1'000'000s + from + i * 1ms};
      made.push_back({.client = client, .sent = at, .answered = at + 500us});
    }
    return made;
  }
  Policy policy_ = Policy::parse(kPolicy).value();
};

TEST_F(BoundCheckTest, HoldsUpToTheLimitAndThePartOfOneThatIsCutOff) {
  EXPECT_TRUE(check(0, calls(0ms, 15)).held());
  const BoundCheck broken = check(0, calls(0ms, 16));
  EXPECT_FALSE(broken.held());
  EXPECT_EQ(broken.admitted, 16U);
  EXPECT_EQ(broken.most, 15U);
  EXPECT_EQ(broken.limit, 10U);
}

TEST_F(BoundCheckTest, CountsFixedWindowsByTheirOwnBorders) {
  EXPECT_TRUE(check(0, calls(985ms, 30)).held());
  EXPECT_FALSE(check(1, calls(985ms, 30)).held());
}

TEST_F(BoundCheckTest, CountsEachKeyByItself) {
  std::vector<Admission> two = calls(0ms, 10, 1);
  for (const Admission& each : calls(0ms, 10, 2)) two.push_back(each);
  EXPECT_EQ(check(0, two).admitted, 10U);
  EXPECT_EQ(check(1, two).admitted, 10U);
  // Without `by` all clients share one; and a closed route has no part.
  EXPECT_EQ(check(2, two).admitted, 20U);
  EXPECT_EQ(check(2, two).most, 10U);
}

TEST_F(BoundCheckTest, LeavesOutWhatMayHaveBeenInAnotherWindow) {
  std::vector<Admission> late = calls(0ms, 20);
  for (Admission& each : late) each.answered += 1s;
  EXPECT_EQ(check(0, late).admitted, 0U);
  EXPECT_EQ(check(1, late).admitted, 0U);
}

TEST_F(BoundCheckTest, KeysThatTheFaultsDoNotStrikeHaveNoMoreThanTheLimit) {
  const policy::Model& model = policy_.model();
  const policy::Route& route = model.routes[0];
  const Placement placement(model, 3);
  std::uint32_t struck = 0, spared = 0;
  while (!placement.is_struck(route, struck)) ++struck;
  while (placement.is_struck(route, spared)) ++spared;
  std::vector<Admission> admissions = calls(0ms, 15, struck);
  const std::vector<Admission> more = calls(0ms, 11, spared);
  admissions.insert(admissions.end(), more.begin(), more.end());
  const auto checks = check_bounds(model, route, admissions, outage(), Instant{}, &placement);
  ASSERT_EQ(checks.size(), 2U);
  EXPECT_FALSE(checks[0].spared);
  EXPECT_TRUE(checks[0].held());
  EXPECT_TRUE(checks[1].spared);
  EXPECT_EQ(checks[1].most, 10U);
  EXPECT_FALSE(checks[1].held()) << "their master answered all the while";
}

}  // namespace
}  // namespace weir::drill
