#include "policy/path.h"

#include <array>
#include <cstdint>

namespace weir::policy {
namespace {

// RFC 3986: pchar without the escapes.
constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> plain{};
  for (int c = 'a'; c <= 'z'; ++c) plain[c] = plain[c - 'a' + 'A'] = true;
  for (int c = '0'; c <= '9'; ++c) plain[c] = true;
  for (const char c :
       {'-', '.', '_', '~', '!', '$', '&', '\'', '(', ')', '*', '+', ',', ';', '=', ':', '@'})
    plain[static_cast<unsigned char>(c)] = true;
  return plain;
}();

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class PathWriter {
 public:
  explicit PathWriter(std::span<char> out) : out_(out) {}

  bool has_room() const { return used_ + 3 < out_.size(); }

  void put(std::uint8_t byte) {
    if (kPlain[byte]) {
      out_[used_++] = static_cast<char>(byte);
      return;
    }
    constexpr std::string_view kHex = "0123456789ABCDEF";
    out_[used_++] = '%';
    out_[used_++] = kHex[byte >> 4];
    out_[used_++] = kHex[byte & 15];
  }

  // Ends the segment since the last slash and begins the next.
  void end_segment() {
    const std::string_view segment(out_.data() + segment_, used_ - segment_);
    if (segment.empty()) return;
    if (segment == ".") {
      used_ = segment_;
    } else if (segment == "..") {
      used_ = segment_;
      if (used_ > 1) {
        --used_;
        while (out_[used_ - 1] != '/') --used_;
      }
    } else {
      out_[used_++] = '/';
    }
    segment_ = used_;
  }

  void begin() {
    out_[0] = '/';
    used_ = segment_ = 1;
  }

  std::string_view finish() {
    end_segment();
    if (used_ > 1) --used_;
    return {out_.data(), used_};
  }

 private:
  std::span<char> out_;
  std::size_t used_ = 0;
  std::size_t segment_ = 0;
};

}  // namespace

std::optional<std::string_view> normalise_path(std::string_view path, std::span<char> out) {
  if (!path.starts_with('/') || out.size() < 4) return std::nullopt;
  PathWriter writer(out);
  writer.begin();
  for (std::size_t i = 1; i < path.size(); ++i) {
    if (!writer.has_room()) return std::nullopt;
    const auto byte = static_cast<std::uint8_t>(path[i]);
    if (byte == '/') {
      writer.end_segment();
    } else if (byte == '%') {
      const int high = i + 2 < path.size() ? hex_digit(path[i + 1]) : -1;
      const int low = i + 2 < path.size() ? hex_digit(path[i + 2]) : -1;
      if (high < 0 || low < 0 || high + low == 0) return std::nullopt;
      writer.put(static_cast<std::uint8_t>(high * 16 + low));
      i += 2;
    } else if (byte < 0x20 || byte == 0x7f || byte == '?' || byte == '#') {
      return std::nullopt;
    } else {
      writer.put(byte);
    }
  }
  return writer.finish();
}

}  // namespace weir::policy
