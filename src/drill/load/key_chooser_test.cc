#include "drill/load/key_chooser.h"

#include <gtest/gtest.h>

#include <vector>

namespace weir::drill {
namespace {

std::vector<int> draw(Distribution distribution, std::uint32_t keys, int times) {
  KeyChooser chooser(distribution, keys, 42);
  std::vector<int> counts(keys);
  for (int i = 0; i < times; ++i) ++counts.at(chooser.next());
  return counts;
}

TEST(KeyChooser, DrawsUniformly) {
  for (const int count : draw(Distribution::uniform, 10, 100'000)) {
    EXPECT_NEAR(count, 10'000, 500);
  }
}

TEST(KeyChooser, DrawsTheKthKeyInProportionToOneByK) {
  const auto counts = draw(Distribution::zipf, 100, 200'000);
  // The 100th harmonic number is 5.187.
  EXPECT_NEAR(counts[0], 200'000 / 5.187, 1'000);
  EXPECT_NEAR(counts[1], counts[0] / 2.0, 1'000);
  EXPECT_NEAR(counts[9], counts[0] / 10.0, 500);
}

TEST(KeyChooser, DrawsTheHotKeyNineTimesInTen) {
  const auto counts = draw(Distribution::hot, 1000, 100'000);
  EXPECT_NEAR(counts[0], 90'000, 1'000);
}

TEST(KeyChooser, DrawsFromOneKey) {
  for (const auto each : {Distribution::uniform, Distribution::zipf, Distribution::hot}) {
    EXPECT_EQ(draw(each, 1, 10)[0], 10);
    EXPECT_EQ(distribution_of(to_string(each)), each);
  }
  EXPECT_EQ(distribution_of("normal"), std::nullopt);
}

}  // namespace
}  // namespace weir::drill
