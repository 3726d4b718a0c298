#include "policy/match.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace weir::policy {
namespace {

Route route(std::string name, std::vector<Match> matches) {
  Route out;
  out.name = std::move(name);
  out.matches = std::move(matches);
  return out;
}

class MatcherTest : public ::testing::Test {
 protected:
  void build(std::vector<Route> routes) {
    model_.routes = std::move(routes);
    ASSERT_TRUE(find_conflicts(model_.routes).empty());
    matcher_ = Matcher::build(model_);
  }
  std::string find(std::string_view method, std::string_view path, std::string_view host = "") {
    const auto found = matcher_->by_request(method, host, path);
    return found ? model_.routes[*found].name : "none";
  }

  Model model_;
  std::shared_ptr<const Matcher> matcher_;
};

TEST_F(MatcherTest, FindsARouteByItsName) {
  build({route("a", {}), route("b", {})});
  EXPECT_EQ(matcher_->by_name("b"), 1u);
  EXPECT_FALSE(matcher_->by_name("c"));
}

TEST_F(MatcherTest, PrefersTheExactPathThenTheLongerPrefix) {
  build({route("all", {{.path = "/", .prefix = true}}),
         route("api", {{.path = "/api/", .prefix = true}}),
         route("v1", {{.path = "/api/v1/", .prefix = true}}),
         route("login", {{.path = "/api/v1/login"}})});
  EXPECT_EQ(find("GET", "/api/v1/login"), "login");
  EXPECT_EQ(find("GET", "/api/v1/users"), "v1");
  EXPECT_EQ(find("GET", "/api/v2"), "api");
  EXPECT_EQ(find("GET", "/api"), "api");
  EXPECT_EQ(find("GET", "/apix"), "all");
  EXPECT_EQ(find("GET", "/"), "all");
}

TEST_F(MatcherTest, KeepsSegmentsAndBeginningsApart) {
  build({route("segments", {{.path = "/api/", .prefix = true}}),
         route("begins", {{.path = "/api", .prefix = true}})});
  EXPECT_EQ(find("GET", "/api/x"), "segments");
  EXPECT_EQ(find("GET", "/api"), "segments");
  EXPECT_EQ(find("GET", "/apix"), "begins");
  EXPECT_EQ(find("GET", "/ap"), "none");
}

TEST_F(MatcherTest, PrefersTheNamedMethod) {
  build({route("any", {{.path = "/login"}}),
         route("post", {{.methods = {"POST", "PUT"}, .path = "/login"}}),
         route("get", {{.methods = {"GET"}, .path = "/", .prefix = true}})});
  EXPECT_EQ(find("POST", "/login"), "post");
  EXPECT_EQ(find("PUT", "/login"), "post");
  EXPECT_EQ(find("GET", "/login"), "any");
  EXPECT_EQ(find("GET", "/else"), "get");
  EXPECT_EQ(find("POST", "/else"), "none");
}

TEST_F(MatcherTest, FallsBackWhereTheMoreSpecificDoesNotFitWholly) {
  build({route("post", {{.methods = {"POST"}, .path = "/a/b"}}),
         route("below", {{.path = "/a/", .prefix = true}}),
         route("host", {{.methods = {"GET"}, .path = "/a/b", .host = "x.example"}})});
  EXPECT_EQ(find("GET", "/a/b"), "below");
  EXPECT_EQ(find("GET", "/a/b", "x.example"), "host");
  EXPECT_EQ(find("POST", "/a/b", "x.example"), "post");
}

TEST_F(MatcherTest, PrefersTheNamedHostToTheBetterPath) {
  build({route("exact", {{.path = "/a"}}), route("host", {{.host = "x.example"}})});
  EXPECT_EQ(find("GET", "/a", "x.example"), "host");
  EXPECT_EQ(find("GET", "/a", "y.example"), "exact");
}

TEST_F(MatcherTest, DoesNotDependOnTheOrderOfRoutes) {
  std::vector<Route> routes = {route("a", {{.path = "/x/", .prefix = true}}),
                               route("b", {{.methods = {"GET"}, .path = "/x/y"}}),
                               route("c", {{.path = "/x/y"}})};
  std::sort(routes.begin(), routes.end(),
            [](const Route& l, const Route& r) { return l.name < r.name; });
  do {
    build(routes);
    EXPECT_EQ(find("GET", "/x/y"), "b");
    EXPECT_EQ(find("PUT", "/x/y"), "c");
    EXPECT_EQ(find("GET", "/x/z"), "a");
  } while (std::next_permutation(routes.begin(), routes.end(),
                                 [](const Route& l, const Route& r) { return l.name < r.name; }));
}

TEST(FindConflicts, NamesMatchesThatFitTheSameRequests) {
  const auto conflicts =
      find_conflicts({route("a", {{.methods = {"GET", "POST"}, .path = "/x"}}),
                      route("b", {{.methods = {"POST"}, .path = "/x"}}),
                      route("c", {{.path = "/x"}}), route("d", {{.path = "/x", .prefix = true}})});
  ASSERT_EQ(conflicts.size(), 1u);
  EXPECT_EQ(conflicts[0].first, 0u);
  EXPECT_EQ(conflicts[0].second, 1u);
  EXPECT_EQ(conflicts[0].what, "POST /x");
}

}  // namespace
}  // namespace weir::policy
