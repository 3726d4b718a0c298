#include "server/grpc/status.h"

#include <array>

namespace weir::server::grpc {
namespace {

constexpr std::array<std::string_view, kCodes> kWireText = {
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"};

constexpr std::optional<std::int64_t> nanos_of(char unit) {
  switch (unit) {
    case 'H':
      return 3'600'000'000'000;
    case 'M':
      return 60'000'000'000;
    case 'S':
      return 1'000'000'000;
    case 'm':
      return 1'000'000;
    case 'u':
      return 1'000;
    case 'n':
      return 1;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::string_view wire_text(Code code) noexcept {
  return kWireText[static_cast<std::size_t>(code)];
}

std::string percent_encode(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char raw : text) {
    const auto c = static_cast<unsigned char>(raw);
    if (c >= 0x20 && c <= 0x7e && c != '%') {
      out += raw;
    } else {
      out += '%';
      out += kHex[c >> 4U];
      out += kHex[c & 15U];
    }
  }
  return out;
}

std::optional<Nanos> parse_timeout(std::string_view text) noexcept {
  if (text.size() < 2 || text.size() > 9) return std::nullopt;
  std::int64_t value = 0;
  for (const char c : text.substr(0, text.size() - 1)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  const auto unit = nanos_of(text.back());
  if (!unit) return std::nullopt;
  // 99,999,999 hours are beyond 63 bits of nanoseconds: as good as no deadline.
  constexpr std::int64_t kLongest = std::int64_t{1} << 62;
  if (value > kLongest / *unit) return Nanos(kLongest);
  return Nanos(value * *unit);
}

bool is_grpc_content_type(std::string_view text) noexcept {
  constexpr std::string_view kType = "application/grpc";
  if (!text.starts_with(kType)) return false;
  return text.size() == kType.size() || text[kType.size()] == '+' || text[kType.size()] == ';';
}

}  // namespace weir::server::grpc
