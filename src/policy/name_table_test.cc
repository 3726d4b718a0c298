#include "policy/name_table.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weir::policy {
namespace {

TEST(NameTable, FindsEveryNameAndNoOther) {
  std::vector<std::string> names{""};
  for (const char* stem :
       {"a", "route", "exactly8", "nine-long", "a-name-of-more-than-two-words"}) {
    for (int i = 0; i < 300; ++i) names.push_back(stem + std::to_string(i));
    names.push_back(stem);
  }
  names.push_back(std::string("with\0zero", 9));
  NameTable table(names.size());
  for (std::uint32_t i = 0; i < names.size(); ++i) table.add(names[i], i);
  for (std::uint32_t i = 0; i < names.size(); ++i) {
    const std::uint32_t* found = table.find(names[i]);
    ASSERT_NE(found, nullptr) << names[i];
    EXPECT_EQ(*found, i) << names[i];
  }
  for (const std::string& absent : {std::string("with"), std::string("with\0zer", 8),
                                    std::string("route300"), std::string("\0", 1)})
    EXPECT_EQ(table.find(absent), nullptr) << absent;
}

TEST(NameTable, FindsTheFirstOfTwoThatAreCalledAlike) {
  NameTable table(2);
  table.add("api", 7);
  table.add("api", 8);
  ASSERT_NE(table.find("api"), nullptr);
  EXPECT_EQ(*table.find("api"), 7u);
}

TEST(NameTable, OfNoNamesFindsNone) {
  const NameTable table(0);
  EXPECT_EQ(table.find(""), nullptr);
  EXPECT_EQ(table.find("api"), nullptr);
}

}  // namespace
}  // namespace weir::policy
