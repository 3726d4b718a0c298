#include "drill/run/placement.h"

#include <gtest/gtest.h>

#include "weir/policy.h"

namespace weir::drill {
namespace {

constexpr const char* kPlaced = R"(
store: {url: 'redis://127.0.0.1:1', workers: {of: 1, index: 0}}
inputs: [user]
routes:
  both:
    limits:
      - {requests: 10, per: second, by: [ip]}
      - {requests: 10, per: second, by: [user]}
    protects: capacity
  all:
    limits: [{requests: 10, per: second}]
    protects: capacity
)";

TEST(Placement, OfALoneServerEveryCounterIsStruck) {
  const Policy policy = Policy::parse(kPlaced).value();
  const Placement placement(policy.model(), 1);
  for (std::uint32_t client = 0; client < 50; ++client) {
    EXPECT_TRUE(placement.is_struck(policy.model().routes[0], client));
  }
}

TEST(Placement, OfThreeMastersTheFirstHasAThirdOfTheCounters) {
  const Policy policy = Policy::parse(kPlaced).value();
  const Placement placement(policy.model(), 3);
  const policy::Route& route = policy.model().routes[0];
  constexpr std::uint32_t kClients = 3'000;
  std::uint32_t by_rule[2] = {0, 0};
  std::uint32_t by_route = 0;
  for (std::uint32_t client = 0; client < kClients; ++client) {
    bool any = false;
    for (std::size_t i = 0; i < 2; ++i) {
      const bool struck = placement.is_struck(route.rules[i], client);
      if (struck) ++by_rule[i];
      any = any || struck;
    }
    EXPECT_EQ(placement.is_struck(route, client), any);
    if (any) ++by_route;
  }
  for (const std::uint32_t of : by_rule) EXPECT_NEAR(of, kClients / 3.0, 150);
  EXPECT_NEAR(by_route, kClients * 5 / 9.0, 150) << "a request with two keys has two chances";
}

TEST(Placement, ACounterForAllIsOnOneMaster) {
  const Policy policy = Policy::parse(kPlaced).value();
  const Placement placement(policy.model(), 3);
  const policy::Route& all = policy.model().routes[1];
  for (std::uint32_t client = 1; client < 50; ++client) {
    EXPECT_EQ(placement.is_struck(all, client), placement.is_struck(all, 0));
  }
}

}  // namespace
}  // namespace weir::drill
