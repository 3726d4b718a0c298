#include "render/text.h"

#include <gtest/gtest.h>

namespace weir::render {
namespace {

using namespace std::chrono_literals;

std::string json(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

std::string duration(Nanos value) {
  std::string out;
  append_duration(out, value);
  return out;
}

TEST(Text, RoundsUpToWholeUnits) {
  EXPECT_EQ(ceil_to(0ns, 1s), 0U);
  EXPECT_EQ(ceil_to(1ns, 1s), 1U);
  EXPECT_EQ(ceil_to(1s, 1s), 1U);
  EXPECT_EQ(ceil_to(1s + 1ns, 1s), 2U);
  EXPECT_EQ(ceil_to(-5s, 1s), 0U);
  EXPECT_EQ(ceil_to(Nanos::max(), 1s), 9223372037U);
}

TEST(Text, SaysDecimalsExactly) {
  const auto decimal = [](Nanos value, Nanos unit) {
    std::string out;
    append_decimal(out, value, unit);
    return out;
  };
  EXPECT_EQ(decimal(1500us, 1ms), "1.5");
  EXPECT_EQ(decimal(60s, 1ms), "60000");
  EXPECT_EQ(decimal(1ns, 1ms), "0.000001");
  EXPECT_EQ(decimal(1000010ns, 1ms), "1.00001");
  EXPECT_EQ(decimal(-1500us, 1ms), "-1.5");
  EXPECT_EQ(decimal(Nanos::min(), 1s), "-9223372036.854775808");
}

TEST(Text, SaysDurationsInTheLargestUnitThatFits) {
  EXPECT_EQ(duration(90s), "90 s");
  EXPECT_EQ(duration(1500ms), "1.5 s");
  EXPECT_EQ(duration(20ms), "20 ms");
  EXPECT_EQ(duration(1500us), "1.5 ms");
  EXPECT_EQ(duration(1s + 1us), "1000.001 ms");
  EXPECT_EQ(duration(250ns), "250 ns");
  EXPECT_EQ(duration(0ns), "0 ns");
}

TEST(Text, EscapesWhatJsonCannotHold) {
  EXPECT_EQ(json("a\"b\\c\n\r\t\x01\x7f"), R"("a\"b\\c\n\r\t\u0001\u007f")");
  EXPECT_EQ(json(std::string_view("\0", 1)), R"("\u0000")");
  EXPECT_EQ(json("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"),
            "\"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"");
}

TEST(Text, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(json("\xff"), R"("\ufffd")");
  EXPECT_EQ(json("a\xc3"), R"("a\ufffd")") << "cut off";
  EXPECT_EQ(json("\xc0\xaf"), R"("\ufffd\ufffd")") << "overlong";
  EXPECT_EQ(json("\xed\xa0\x80"), R"("\ufffd\ufffd\ufffd")") << "surrogate";
  EXPECT_EQ(json("\xf4\x90\x80\x80"), R"("\ufffd\ufffd\ufffd\ufffd")") << "beyond U+10FFFF";
  EXPECT_EQ(json("\xe2\x82x"), R"("\ufffd\ufffdx")");
}

}  // namespace
}  // namespace weir::render
