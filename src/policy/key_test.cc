#include "policy/key.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace weir::policy {
namespace {

const ValueDigester kDigester = ValueDigester::from_text("test");

std::string key(std::uint64_t identity, const std::vector<std::optional<std::string>>& values) {
  std::array<char, KeyWriter::kMaxKeyBytes> buffer;
  KeyWriter writer(buffer.data(), identity);
  for (const auto& value : values) {
    if (value) {
      writer.value(*value, kDigester);
    } else {
      writer.absent();
    }
  }
  return std::string(writer.view());
}

TEST(KeyWriter, KeepsApartWhatJoiningWouldMerge) {
  const std::set<std::string> keys{
      key(1, {"a_b", "c"}), key(1, {"a", "b_c"}), key(1, {"a", "b", "c"}), key(1, {"abc"}),
      key(1, {"a_b_c"}),    key(1, {"", "abc"}),  key(1, {"abc", ""}),     key(1, {std::nullopt}),
      key(1, {""}),         key(1, {}),           key(2, {"a_b", "c"}),    key(1, {"\xfe"}),
      key(1, {"\xff"}),     key(1, {"a\0b"}),
  };
  EXPECT_EQ(keys.size(), 14U);
}

TEST(KeyWriter, KeepsAnyBytes) {
  const std::string wild("a b\r\nSET x 1\r\n\0\xf0\x9f\x98\x80\xc3", 21);
  EXPECT_NE(key(1, {wild}).find(wild), std::string::npos);
}

TEST(KeyWriter, DigestsLongValuesAndNeverTruncatesThem) {
  const std::string long_a(1000, 'a');
  std::string long_b = long_a;
  long_b.back() = 'b';
  EXPECT_EQ(key(1, {long_a}).size(), 8U + 1 + 16);
  EXPECT_NE(key(1, {long_a}), key(1, {long_b}));
  EXPECT_EQ(key(1, {std::string(64, 'x')}).size(), 8U + 1 + 64);
  EXPECT_NE(key(1, {std::string(64, 'x')}), key(1, {std::string(65, 'x')}));
}

TEST(KeyWriter, FillsItsBufferAndNoMore) {
  const std::vector<std::optional<std::string>> values(KeyWriter::kMaxValues, std::string(64, 'v'));
  EXPECT_EQ(key(1, values).size(), KeyWriter::kMaxKeyBytes);
}

TEST(KeyHasher, DiffersBySecretAndByKey) {
  KeyHasher one({1}), two({2});
  EXPECT_EQ(one("abc"), one("abc"));
  EXPECT_NE(one("abc"), two("abc"));
  EXPECT_NE(one("abc"), one("abd"));
}

TEST(ValueDigester, IsTheSameOnEveryWorkerOfOneConfiguration) {
  EXPECT_EQ(ValueDigester::from_text("weir")("value"), ValueDigester::from_text("weir")("value"));
  EXPECT_NE(ValueDigester::from_text("weir")("value"), ValueDigester::from_text("other")("value"));
}

}  // namespace
}  // namespace weir::policy
