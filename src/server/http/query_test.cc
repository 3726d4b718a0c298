#include "server/http/query.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::server::http {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(Query, DecodesNamesAndValues) {
  EXPECT_THAT(parse_query("route=a%2Fb+c&x&%72=%00&&y=").value(),
              ElementsAre(Pair("route", "a/b c"), Pair("x", ""), Pair("r", std::string(1, '\0')),
                          Pair("y", "")));
  EXPECT_THAT(parse_query("").value(), IsEmpty());
  EXPECT_THAT(parse_query("a=b=c").value(), ElementsAre(Pair("a", "b=c")));
}

TEST(Query, RefusesEscapesThatAreNone) {
  for (const char* query : {"a=%", "a=%4", "a=%4g", "a=%-1", "%=a"}) {
    EXPECT_FALSE(parse_query(query)) << query;
  }
}

}  // namespace
}  // namespace weir::server::http
