#include "store/redis/topology/key_slot.h"

#include <gtest/gtest.h>

#include <set>

namespace weir::store::redis {
namespace {

// As `CLUSTER KEYSLOT` of a server says.
TEST(KeySlot, IsTheOneOfTheSpecification) {
  EXPECT_EQ(key_slot("123456789"), 0x31c3);
  EXPECT_EQ(key_slot("foo"), 12182);
  EXPECT_EQ(key_slot("bar"), 5061);
  EXPECT_EQ(key_slot(""), 0);
}

TEST(KeySlot, HashesTheFirstTagAlone) {
  EXPECT_EQ(key_slot("a{foo}b{bar}"), key_slot("foo"));
  EXPECT_EQ(key_slot("{foo}{bar}"), key_slot("foo"));
  EXPECT_EQ(key_slot("x{{bar}}zap"), key_slot("{bar"));
  EXPECT_NE(key_slot("{}foo"), key_slot("foo")) << "an empty tag is none";
  EXPECT_NE(key_slot("{foo"), key_slot("foo"));
}

TEST(KeySlot, HasANameForEverySlot) {
  std::set<std::string> names;
  for (std::uint16_t slot = 0; slot < 200; ++slot) {
    const std::string name = name_in_slot(static_cast<std::uint16_t>(slot * 81));
    EXPECT_EQ(key_slot("weir:1:{!" + name + "}members"), slot * 81);
    EXPECT_LE(name.size(), 4U);
    names.insert(name);
  }
  EXPECT_EQ(names.size(), 200U);
}

}  // namespace
}  // namespace weir::store::redis
