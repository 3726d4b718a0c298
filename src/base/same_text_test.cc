#include "base/same_text.h"

#include <gtest/gtest.h>

#include <string>

namespace weir {
namespace {

TEST(SameText, SeesADifferenceAtEveryPlaceOfEveryLength) {
  for (std::size_t size = 0; size <= 40; ++size) {
    std::string text(size, '\0');
    for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i);
    EXPECT_TRUE(same_text(text, std::string(text))) << size;
    EXPECT_FALSE(same_text(text, text + '\0')) << size;
    for (std::size_t i = 0; i < size; ++i) {
      std::string other = text;
      other[i] = '\0';
      EXPECT_FALSE(same_text(text, other)) << size << " at " << i;
    }
  }
  EXPECT_TRUE(same_text({}, ""));
}

}  // namespace
}  // namespace weir
