#include "store/redis/physical_key.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "policy/key.h"
#include "store/redis/byte_codec.h"
#include "store/redis/topology/key_slot.h"

namespace weir::store::redis {
namespace {

constexpr std::string_view kVersion = "1";
constexpr std::size_t kMaxPrefix = 64;
using policy::KeyWriter;
constexpr std::size_t kIdentityBytes = KeyWriter::kIdentityBytes;
constexpr char kTagAlphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";
constexpr char kBase64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr char kHex[] = "0123456789ABCDEF";

constexpr bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// What stands for itself inside a value. All that the grammar uses ({ } / ! # ~ %) does not.
constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> plain{};
  for (int c = 0; c < 256; ++c) {
    const char byte = static_cast<char>(c);
    plain[static_cast<std::size_t>(c)] =
        is_letter_or_digit(byte) ||
        std::string_view("_.:-@=+,;*").find(byte) != std::string_view::npos;
  }
  return plain;
}();

void append_base64(std::string_view bytes, std::string& out) {
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : bytes) {
    bits = (bits << 8) | static_cast<unsigned char>(c);
    held += 8;
    while (held >= 6) {
      held -= 6;
      out += kBase64[(bits >> held) & 63];
    }
  }
  if (held > 0) out += kBase64[(bits << (6 - held)) & 63];
}

void append_escaped(std::string_view bytes, std::string& out) {
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (kPlain[byte]) {
      out += c;
    } else {
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
}

// The bytes of a value behind its first, which says its kind.
std::size_t length_of(unsigned char kind) {
  switch (kind) {
    case KeyWriter::kAbsent:
      return 0;
    case KeyWriter::kDigested:
      return sizeof(ValueDigester::Digest);
    case KeyWriter::kBeside:
      return kIdentityBytes;
    default:
      return kind;
  }
}

std::string_view but_last(std::string_view values) {
  std::size_t last = 0;
  for (std::size_t at = 0; at < values.size();) {
    last = at;
    at += 1 + length_of(static_cast<unsigned char>(values[at]));
  }
  return values.substr(0, last);
}

void append_values(std::string_view values, std::string& out) {
  while (!values.empty()) {
    const auto kind = static_cast<unsigned char>(values.front());
    values.remove_prefix(1);
    out += '/';
    if (kind == KeyWriter::kAbsent) {
      out += '~';
      continue;
    }
    const std::size_t length = std::min(values.size(), length_of(kind));
    if (kind == KeyWriter::kDigested || kind == KeyWriter::kBeside) {
      out += kind == KeyWriter::kDigested ? '#' : '^';
      append_base64(values.substr(0, length), out);
    } else {
      append_escaped(values.substr(0, length), out);
    }
    values.remove_prefix(length);
  }
}

void append_number(std::uint64_t number, std::string& out) {
  char bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(number >> (8 * (7 - i)));
  append_base64({bytes, sizeof(bytes)}, out);
}

}  // namespace

Result<KeySpace> KeySpace::make(std::string_view prefix, std::string_view secret) {
  const bool plain = std::all_of(prefix.begin(), prefix.end(), [](char c) {
    return is_letter_or_digit(c) || std::string_view("_.:-").find(c) != std::string_view::npos;
  });
  if (prefix.empty() || prefix.size() > kMaxPrefix || !plain) {
    return Error{ErrorCode::invalid_argument,
                 "store.prefix: '" + std::string(prefix.substr(0, kMaxPrefix)) +
                     "' is not a prefix; allowed: 1 to 64 letters, digits, '_', '.', ':' and '-'"};
  }
  std::string root(prefix);
  root.append(":").append(kVersion).append(":");
  const ValueDigester::Digest digest = ValueDigester::from_text(
      std::string("weir hash tag\n") + root + '\n' + std::string(secret))("tag");
  KeyHasher::Secret key{};
  std::copy(digest.begin(), digest.end(), reinterpret_cast<char*>(key.data()));
  return KeySpace(std::move(root), key);
}

void KeySpace::put_tag(std::string_view key, char* tag) const {
  std::string_view identity = key.substr(0, std::min(kIdentityBytes, key.size()));
  std::string_view values = key.substr(identity.size());
  if (KeyWriter::is_own(key)) {
    values = but_last(values);
    if (!values.empty() && static_cast<unsigned char>(values.front()) == KeyWriter::kBeside) {
      identity = values.substr(1, kIdentityBytes);
      values = {};
    }
  }
  const KeyDigest digest = tags_(values.empty() ? identity : values);
  for (int i = 0; i < kTagLetters; ++i) tag[i] = kTagAlphabet[(digest.lo >> (5 * i)) & 31];
}

std::uint16_t KeySpace::slot(std::string_view key) const {
  char tag[kTagLetters];
  put_tag(key, tag);
  return key_slot({tag, sizeof(tag)});
}

void KeySpace::append_counter(std::string_view key, std::string& out) const {
  const std::string_view identity = key.substr(0, std::min(kIdentityBytes, key.size()));
  const std::string_view values = key.substr(identity.size());
  char tag[kTagLetters];
  put_tag(key, tag);
  out += root_;
  out += '{';
  out.append(tag, sizeof(tag));
  out += '}';
  append_base64(identity, out);
  append_values(values, out);
}

void KeySpace::append_record(std::string_view key, std::uint64_t worker, Instant window,
                             std::string& out) const {
  append_counter(key, out);
  out += '!';
  append_number(worker, out);
  out += '.';
  out += std::to_string(window.time_since_epoch().count());
}

void KeySpace::append_envoyproxy(std::string_view key, const limit::Window& window,
                                 std::string& out) {
  out += key.substr(std::min(kIdentityBytes, key.size()));
  out += std::to_string(window.start_ns / kNanosInSecond);
}

std::uint16_t KeySpace::envoyproxy_slot(std::string_view key, const limit::Window& window) {
  thread_local std::string name;
  name.clear();
  append_envoyproxy(key, window, name);
  return key_slot(name);
}

void KeySpace::append_total(std::string_view key, Instant window, std::string& out) const {
  append_counter(key, out);
  out += "!.";
  out += std::to_string(window.time_since_epoch().count());
}

void KeySpace::append_meta(std::string_view shard, std::string_view name, std::string& out) const {
  out += root_;
  out += "{!";
  append_escaped(shard, out);
  out += '}';
  append_escaped(name, out);
}

namespace {

// The first tag of so many letters, counted from the left, that lies in this slot. A slot is a
// CRC16 without a start, so that each letter changes it by what its place and it come to, whatever
// the others are: that is worked out once, and the search compares.
std::string tag_in_slot(std::uint16_t slot, std::size_t letters) {
  std::vector<std::array<std::uint16_t, 32>> by_letter(letters);
  for (std::size_t at = 0; at < letters; ++at) {
    for (std::size_t letter = 0; letter < by_letter[at].size(); ++letter) {
      std::string alone(letters, '\0');
      alone[at] = kTagAlphabet[letter];
      by_letter[at][letter] = key_slot(alone);
    }
  }
  for (std::uint32_t others = 0;; ++others) {
    std::uint16_t wanted = slot;
    std::string tag(letters, '\0');
    for (std::size_t at = 1; at < letters; ++at) {
      const std::uint32_t letter = others >> (5 * (at - 1)) & 31;
      tag[at] = kTagAlphabet[letter];
      wanted ^= by_letter[at][letter];
    }
    const auto& first = by_letter[0];
    const auto found = std::find(first.begin(), first.end(), wanted);
    if (found == first.end()) continue;
    tag[0] = kTagAlphabet[found - first.begin()];
    return tag;
  }
}

}  // namespace

std::string KeySpace::trial(std::string_view shard) const {
  const std::uint16_t slot = key_slot(meta(shard, {}));
  const std::string tag = tag_in_slot(slot, kTagLetters);
  char identity[kIdentityBytes];
  const KeyWriter key(identity, KeyWriter::own_identity('t', 's', 't'));
  std::string out = root_;
  out.append("{").append(tag).append("}");
  append_base64(key.view(), out);
  return out;
}

std::string KeySpace::counter(std::string_view key) const {
  std::string out;
  append_counter(key, out);
  return out;
}

std::string KeySpace::meta(std::string_view shard, std::string_view name) const {
  std::string out;
  append_meta(shard, name, out);
  return out;
}

}  // namespace weir::store::redis
