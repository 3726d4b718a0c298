#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace weir {

// A counter's name, digested with a key: 128 bits that nobody can steer who does not know it. In
// one process the key is drawn; a fleet's is made of its store's prefix, which may be no secret.
struct KeyDigest {
  std::uint64_t hi = 0;
  std::uint64_t lo = 0;

  friend bool operator==(const KeyDigest&, const KeyDigest&) = default;
};

// Digests short keys with SipHash-2-4 (128 bits) under a secret.
//
// Guarantees:  whoever does not know the secret finds no two keys with one digest by choosing keys;
// by chance n keys
//              hold a collision with probability about n^2 / 2^129.
// Threads:     immutable. Cost: about 25 ns for 40 bytes, no allocation.
class KeyHasher {
 public:
  using Secret = std::array<unsigned char, 16>;

  explicit KeyHasher(const Secret& secret) : secret_(secret) {}
  KeyDigest operator()(std::string_view bytes) const noexcept;

  static Secret random_secret();

 private:
  Secret secret_;
};

// Digests values too long to keep, with keyed BLAKE2b (128 bits), which stays collision resistant
// even where the key is known: a fleet derives it from its configuration.
//
// Threads:     immutable. No allocation.
class ValueDigester {
 public:
  using Secret = std::array<unsigned char, 32>;
  using Digest = std::array<char, 16>;

  explicit ValueDigester(const Secret& secret) : secret_(secret) {}
  // The same text gives the same digester on every worker.
  static ValueDigester from_text(std::string_view text);

  Digest operator()(std::string_view bytes) const noexcept;

 private:
  Secret secret_;
};

}  // namespace weir
