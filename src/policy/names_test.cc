#include "policy/names.h"

#include <gtest/gtest.h>

namespace weir::policy {
namespace {

TEST(Names, SaysWhichWasMeant) {
  EXPECT_EQ(no_such_route("lgin", {"login", "search"}),
            "the policy has no route 'lgin'; did you mean 'login'?; it has: login, search");
  EXPECT_EQ(no_such_route("nowhere", {"login"}),
            "the policy has no route 'nowhere'; it has: login");
  EXPECT_EQ(no_such_route("login", {}), "the policy has no route 'login'; it has: none");
}

// A policy of ten thousand routes filled the terminal, and the way out was not to be found in it.
TEST(Names, NamesNoMoreThanCanBeRead) {
  std::set<std::string> names;
  for (int i = 100; i < 120; ++i) names.insert("r" + std::to_string(i));
  EXPECT_EQ(joined(names).substr(joined(names).size() - 12), ", r118, r119");
  for (int i = 120; i < 10'100; ++i) names.insert("r" + std::to_string(i));
  const std::string said = no_such_route("route-1", names);
  EXPECT_LT(said.size(), 300U);
  EXPECT_EQ(said.substr(said.size() - 14), " and 9980 more");
}

}  // namespace
}  // namespace weir::policy
