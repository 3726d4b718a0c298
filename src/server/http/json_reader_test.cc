#include "server/http/json_reader.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>

namespace weir::server::http {
namespace {

// Reads any JSON, into nlohmann's own form.
bool read_value(JsonReader& reader, nlohmann::json& value, int depth) {
  if (depth > 40) return false;
  std::string_view text;
  switch (reader.next()) {
    case JsonReader::Kind::object:
      value = nlohmann::json::object();
      return reader.object([&](std::string_view key) {
        return read_value(reader, value[std::string(key)], depth + 1);
      });
    case JsonReader::Kind::array:
      value = nlohmann::json::array();
      return reader.array([&] {
        value.push_back(nullptr);
        return read_value(reader, value.back(), depth + 1);
      });
    case JsonReader::Kind::string:
      if (!reader.string(text)) return false;
      value = std::string(text);
      return true;
    case JsonReader::Kind::number:
      if (!reader.number(text)) return false;
      value = nlohmann::json::parse(text, nullptr, false);
      return true;
    default:
      return false;
  }
}

// Neither true, false nor null: the reader has no call for them, since no grammar of ours does.
bool has_literal(const nlohmann::json& value) {
  if (value.is_null() || value.is_boolean()) return true;
  if (!value.is_structured()) return false;
  return std::any_of(value.begin(), value.end(), has_literal);
}

void expect_same_as_nlohmann(const std::string& text) {
  const auto expected = nlohmann::json::parse(text, nullptr, false);
  JsonReader reader;
  reader.begin(text);
  nlohmann::json got;
  const bool read = read_value(reader, got, 0) && reader.end();
  if (expected.is_discarded()) {
    EXPECT_FALSE(read) << text;
  } else if (!has_literal(expected)) {
    EXPECT_TRUE(read) << text << ": " << reader.fault();
    if (read) {
      EXPECT_EQ(got, expected) << text;
    }
  }
}

TEST(JsonReader, AgreesWithNlohmannOnSmallTexts) {
  for (const char* text : {"",
                           " ",
                           "{}",
                           "[]",
                           "{ }",
                           "[ ]",
                           "{\"a\":1}",
                           "{\"a\":1,}",
                           "{,}",
                           "[1,]",
                           "[,1]",
                           "[1 2]",
                           "{\"a\" 1}",
                           "{\"a\":}",
                           "{a:1}",
                           "{'a':1}",
                           "{1:1}",
                           "{}x",
                           "{}{}",
                           "{} ",
                           "\t\r\n{}",
                           "0",
                           "-0",
                           "00",
                           "01",
                           "-",
                           "+1",
                           "1.",
                           ".5",
                           "1.5",
                           "1e",
                           "1e5",
                           "1E+5",
                           "1e-",
                           "1.e5",
                           "-1.5e3",
                           "0x10",
                           "1_0",
                           "NaN",
                           "Infinity",
                           "\"\"",
                           "\"a",
                           "\"\\\"\"",
                           "\"\\/\\b\\f\\n\\r\\t\\\\\"",
                           "\"\\x\"",
                           "\"\\u12\"",
                           "\"\\u00e9\"",
                           "\"\\uD83D\\uDE00\"",
                           "\"\\u0000\"",
                           "\"\\\"",
                           "\"\t\"",
                           "\"\x7f\"",
                           "\"\xc3\xa9\"",
                           "[[[[[[1]]]]]]",
                           "[\"a\",{\"b\":[]}]",
                           "{\"a\":1,\"b\":\"2\"}",
                           "\xef\xbb\xbf{}x",
                           "{\"\":\"\"}",
                           "tru",
                           "nul",
                           "[1}",
                           "{\"a\":1]",
                           "//x\n{}",
                           "/**/{}"}) {
    expect_same_as_nlohmann(text);
  }
}

TEST(JsonReader, AgreesWithNlohmannOnRandomTexts) {
  std::mt19937 random(20240607);
  const std::string alphabet = "{}[]\",:\\u0123dDeE+-. ab\n/tn";
  for (int i = 0; i < 50'000; ++i) {
    std::string text;
    for (auto left = random() % 12; left-- > 0;) text += alphabet[random() % alphabet.size()];
    // nlohmann refuses lone surrogates; we keep them.
    if (text.find("\\u") == std::string::npos) expect_same_as_nlohmann(text);
  }
}

std::string string_of(const std::string& text) {
  JsonReader reader;
  reader.begin(text);
  std::string_view value;
  EXPECT_TRUE(reader.string(value) && reader.end()) << text << ": " << reader.fault();
  return std::string(value);
}

TEST(JsonReader, KeepsAnyBytes) {
  EXPECT_EQ(string_of("\"\xff\xfe\x80\""), "\xff\xfe\x80");
  EXPECT_EQ(string_of("\"\\n\xff\""), "\n\xff");
  EXPECT_EQ(string_of("\"\\u0000\""), std::string(1, '\0'));
}

TEST(JsonReader, KeepsLoneSurrogatesApart) {
  EXPECT_EQ(string_of("\"\\ud83d\""), "\xed\xa0\xbd");
  EXPECT_EQ(string_of("\"\\ude00\""), "\xed\xb8\x80");
  EXPECT_EQ(string_of("\"\\ud83d\\ud83d\\ude00\""), "\xed\xa0\xbd\xf0\x9f\x98\x80");
  EXPECT_EQ(string_of("\"\\ud83d\\u0041\""),
            "\xed\xa0\xbd"
            "A");
}

TEST(JsonReader, ViewsOutliveLaterStrings) {
  const std::string text = R"(["\na", "\tb", "c", "\u0064"])";
  JsonReader reader;
  reader.begin(text);
  std::vector<std::string_view> values;
  ASSERT_TRUE(reader.array([&] { return reader.string(values.emplace_back()); }));
  EXPECT_EQ(values, (std::vector<std::string_view>{"\na", "\tb", "c", "d"}));
}

}  // namespace
}  // namespace weir::server::http
