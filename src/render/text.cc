#include "render/text.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace weir::render {
namespace {

constexpr char kHex[] = "0123456789abcdef";

constexpr bool needs_escape(unsigned char c) {
  return c < 0x20 || c == '"' || c == '\\' || c == 0x7f;
}

// Bytes that go into a JSON string as they are, whatever stands beside them.
constexpr std::array<bool, 256> plain_bytes() {
  std::array<bool, 256> plain{};
  for (unsigned c = 0; c < 0x80; ++c) plain[c] = !needs_escape(static_cast<unsigned char>(c));
  return plain;
}
constexpr std::array<bool, 256> kPlain = plain_bytes();

void append_escaped(std::string& out, unsigned char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      out += "\\u00";
      out += kHex[c >> 4];
      out += kHex[c & 15];
  }
}

// Least and greatest second byte that a lead byte allows (Unicode, table 3-7), and the length.
struct Lead {
  std::size_t length;
  unsigned char low;
  unsigned char high;
};

Lead lead_of(unsigned char c) {
  if (c >= 0xc2 && c <= 0xdf) return {2, 0x80, 0xbf};
  if (c == 0xe0) return {3, 0xa0, 0xbf};
  if (c == 0xed) return {3, 0x80, 0x9f};  // no surrogates
  if (c >= 0xe1 && c <= 0xef) return {3, 0x80, 0xbf};
  if (c == 0xf0) return {4, 0x90, 0xbf};
  if (c >= 0xf1 && c <= 0xf3) return {4, 0x80, 0xbf};
  if (c == 0xf4) return {4, 0x80, 0x8f};  // nothing above U+10FFFF
  return {0, 0, 0};
}

}  // namespace

void append_number(std::string& out, std::uint64_t value) {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}

void append_number(std::string& out, std::int64_t value) {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}

std::uint64_t ceil_to(Nanos value, Nanos unit) noexcept {
  if (value <= Nanos::zero()) return 0;
  const std::int64_t whole = value / unit;
  return static_cast<std::uint64_t>(whole) + (value % unit != Nanos::zero() ? 1 : 0);
}

void append_decimal(std::string& out, Nanos value, Nanos unit) {
  std::uint64_t magnitude = static_cast<std::uint64_t>(value.count());
  if (value < Nanos::zero()) {
    out += '-';
    magnitude = 0 - magnitude;
  }
  const auto divisor = static_cast<std::uint64_t>(unit.count());
  append_number(out, magnitude / divisor);
  std::uint64_t rest = magnitude % divisor;
  if (rest == 0) return;
  out += '.';
  for (std::uint64_t place = divisor / 10; rest != 0; place /= 10) {
    out += static_cast<char>('0' + rest / place);
    rest %= place;
  }
}

void append_duration(std::string& out, Nanos value) {
  struct Unit {
    Nanos length;
    std::string_view name;
  };
  static constexpr Unit kUnits[] = {{std::chrono::seconds(1), " s"},
                                    {std::chrono::milliseconds(1), " ms"},
                                    {std::chrono::microseconds(1), " us"},
                                    {Nanos(1), " ns"}};
  for (const Unit& unit : kUnits) {
    const bool whole_enough = value % std::max(unit.length / 1000, Nanos(1)) == Nanos::zero();
    if (unit.length == Nanos(1) || (value >= unit.length && whole_enough)) {
      append_decimal(out, value, unit.length);
      out += unit.name;
      return;
    }
  }
}

std::size_t utf8_length(std::string_view text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(at) < 0x80) return 1;
  const Lead lead = lead_of(byte(at));
  if (lead.length == 0 || text.size() - at < lead.length) return 0;
  if (byte(at + 1) < lead.low || byte(at + 1) > lead.high) return 0;
  for (std::size_t i = 2; i < lead.length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  }
  return lead.length;
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  std::size_t plain = 0;  // start of the run that goes out as it is
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (kPlain[c]) {
      ++i;
      continue;
    }
    const std::size_t length = needs_escape(c) ? 0 : utf8_length(text, i);
    if (length != 0) {
      i += length;
      continue;
    }
    out.append(text, plain, i - plain);
    if (c < 0x80) {
      append_escaped(out, c);
    } else {
      out += "\\ufffd";
    }
    plain = ++i;
  }
  out.append(text, plain);
  out += '"';
}

}  // namespace weir::render
