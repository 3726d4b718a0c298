#include "server/http/json_reader.h"

namespace weir::server::http {
namespace {

constexpr std::string_view kControl = "A control character inside a string must be escaped.";
constexpr std::string_view kUnended = "A string does not end.";

bool digit(char c) {
  return c >= '0' && c <= '9';
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xc0 | code >> 6);
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
  }
  put(0x80 | (code & 0x3f));
}

}  // namespace

std::string_view to_string(JsonReader::Kind kind) {
  switch (kind) {
    case JsonReader::Kind::object:
      return "an object";
    case JsonReader::Kind::array:
      return "an array";
    case JsonReader::Kind::string:
      return "a string";
    case JsonReader::Kind::number:
      return "a number";
    case JsonReader::Kind::boolean:
      return "true or false";
    case JsonReader::Kind::null:
      return "null";
    case JsonReader::Kind::none:
      break;
  }
  return "not JSON";
}

void JsonReader::begin(std::string_view text) {
  text_ = text;
  at_ = 0;
  fault_ = {};
  unescaped_.clear();
}

void JsonReader::skip_blanks() noexcept {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
    ++at_;
  }
}

bool JsonReader::take(char wanted) noexcept {
  if (failed()) return false;
  skip_blanks();
  if (at_ >= text_.size() || text_[at_] != wanted) return false;
  ++at_;
  return true;
}

bool JsonReader::fail(std::string_view why) noexcept {
  if (fault_.empty()) fault_ = why;
  return false;
}

JsonReader::Kind JsonReader::next() {
  if (failed()) return Kind::none;
  skip_blanks();
  if (at_ >= text_.size()) return Kind::none;
  const char c = text_[at_];
  const std::string_view rest = text_.substr(at_);
  if (c == '{') return Kind::object;
  if (c == '[') return Kind::array;
  if (c == '"') return Kind::string;
  if (c == '-' || digit(c)) return Kind::number;
  if (rest.starts_with("true") || rest.starts_with("false")) return Kind::boolean;
  if (rest.starts_with("null")) return Kind::null;
  return Kind::none;
}

bool JsonReader::number(std::string_view& digits) {
  if (next() != Kind::number) return fail("A number was expected.");
  const std::size_t begin = at_;
  const auto more = [this] { return at_ < text_.size() && digit(text_[at_]); };
  const auto some_digits = [&] {
    if (!more()) return false;
    while (more()) ++at_;
    return true;
  };
  const auto is = [this](char c) { return at_ < text_.size() && text_[at_] == c; };
  if (is('-')) ++at_;
  if (is('0')) {
    ++at_;
  } else if (!some_digits()) {
    return fail("A number is malformed.");
  }
  if (is('.')) {
    ++at_;
    if (!some_digits()) return fail("A number is malformed.");
  }
  if (is('e') || is('E')) {
    ++at_;
    if (is('+') || is('-')) ++at_;
    if (!some_digits()) return fail("A number is malformed.");
  }
  digits = text_.substr(begin, at_ - begin);
  return true;
}

bool JsonReader::null() {
  if (next() != Kind::null) return fail("null was expected.");
  at_ += sizeof "null" - 1;
  return true;
}

bool JsonReader::string(std::string_view& value) {
  if (next() != Kind::string) return fail("A string was expected.");
  const std::size_t begin = ++at_;
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '"') {
      value = text_.substr(begin, at_ - begin);
      ++at_;
      return true;
    }
    if (c == '\\') return escaped_string(begin, value);
    if (static_cast<unsigned char>(c) < 0x20) return fail(kControl);
  }
  return fail(kUnended);
}

bool JsonReader::escaped_string(std::size_t begin, std::string_view& value) {
  // An escape is never shorter than what it stands for, so the whole text bounds them all.
  if (unescaped_.empty()) unescaped_.reserve(text_.size());
  const std::size_t start = unescaped_.size();
  unescaped_ += text_.substr(begin, at_ - begin);
  while (at_ < text_.size()) {
    const char c = text_[at_++];
    if (c == '"') {
      value = std::string_view(unescaped_).substr(start);
      return true;
    }
    if (c == '\\') {
      if (!escape()) return false;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      return fail(kControl);
    } else {
      unescaped_ += c;
    }
  }
  return fail(kUnended);
}

bool JsonReader::escape() {
  constexpr std::string_view kNames = "\"\\/bfnrtu";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  if (at_ >= text_.size()) return fail(kUnended);
  const std::size_t which = kNames.find(text_[at_++]);
  if (which == std::string_view::npos) return fail("An escape is not one of JSON.");
  if (which == kMeanings.size()) return unicode_escape();
  unescaped_ += kMeanings[which];
  return true;
}

bool JsonReader::unicode_escape() {
  std::uint32_t code = 0;
  if (!hex4(code)) return false;
  const bool high = code >= 0xd800 && code < 0xdc00;
  if (high && text_.substr(at_).starts_with("\\u")) {
    const std::size_t back = at_;
    at_ += 2;
    std::uint32_t low = 0;
    if (!hex4(low)) return false;
    if (low >= 0xdc00 && low < 0xe000) {
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else {
      at_ = back;  // stands for itself
    }
  }
  append_utf8(unescaped_, code);
  return true;
}

bool JsonReader::hex4(std::uint32_t& code) noexcept {
  code = 0;
  for (int i = 0; i < 4; ++i) {
    if (at_ >= text_.size()) return fail(kUnended);
    const char c = text_[at_++];
    std::uint32_t value = 0;
    if (digit(c)) {
      value = static_cast<std::uint32_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      value = static_cast<std::uint32_t>(c - 'a' + 10);
    } else if (c >= 'A' && c <= 'F') {
      value = static_cast<std::uint32_t>(c - 'A' + 10);
    } else {
      return fail("A \\u escape needs four hexadecimal digits.");
    }
    code = code << 4 | value;
  }
  return true;
}

bool JsonReader::end() {
  if (failed()) return false;
  skip_blanks();
  return at_ == text_.size() || fail("Something follows the value.");
}

}  // namespace weir::server::http
