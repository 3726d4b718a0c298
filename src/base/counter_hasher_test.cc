#include "base/counter_hasher.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

namespace weir {
namespace {

std::string random_text(std::mt19937_64& random, std::size_t length) {
  std::string text(length, '\0');
  for (char& each : text) each = static_cast<char>(random());
  return text;
}

TEST(CounterHasher, OfAFleetDigestsAsKeyHasherAtEveryLength) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20; ++round) {
    KeyHasher::Secret secret{};
    for (unsigned char& each : secret) each = static_cast<unsigned char>(random());
    const KeyHasher known(secret);
    const CounterHasher hasher = CounterHasher::of_fleet(secret);
    for (std::size_t length = 0; length < 100; ++length) {
      const std::string text = random_text(random, length);
      EXPECT_EQ(hasher(text), known(text)) << length;
    }
  }
}

TEST(CounterHasher, DigestsATextInThreePiecesAsItDoesTheWhole) {
  std::mt19937_64 random(3);
  for (const bool fleet : {false, true}) {
    const CounterHasher hasher =
        fleet ? CounterHasher::of_fleet(KeyHasher::random_secret()) : CounterHasher::of_process();
    for (std::size_t length = 0; length < 300; ++length) {
      const std::uint64_t head = random();
      const auto byte = static_cast<unsigned char>(random());
      const std::string rest = random_text(random, length);
      std::string whole;
      for (int shift = 0; shift < 64; shift += 8) whole += static_cast<char>(head >> shift);
      whole += static_cast<char>(byte);
      whole += rest;
      EXPECT_EQ(hasher(head, byte, rest), hasher(whole)) << length;
    }
  }
}

// The first bytes of what the authors' reference code prints for 128 bits, 2 and 4 rounds: key
// 00 01 .. 0f, and the empty text.
TEST(SipHash, AgreesWithThePublishedVector) {
  std::array<unsigned char, 16> secret{};
  for (std::size_t i = 0; i < secret.size(); ++i) secret[i] = static_cast<unsigned char>(i);
  const KeyDigest digest = SipHash<2, 4>(secret)("");
  EXPECT_EQ(digest.hi, 0xe6a825ba047f81a3U);
  EXPECT_EQ(digest.lo, 0x930255c71472f66dU);
}

TEST(CounterHasher, OfAProcessDiffersByProcessAndByEveryByteOfTheKey) {
  const CounterHasher one = CounterHasher::of_process(), two = CounterHasher::of_process();
  EXPECT_NE(one("key"), two("key"));
  std::mt19937_64 random(2);
  for (const std::size_t length : {1, 7, 8, 9, 33, 64}) {
    const std::string text = random_text(random, length);
    EXPECT_EQ(one(text), one(std::string(text)));
    EXPECT_NE(one(text), one(text + '\0'));
    for (std::size_t i = 0; i < length * 8; ++i) {
      std::string other = text;
      other[i / 8] = static_cast<char>(other[i / 8] ^ (1 << (i % 8)));
      EXPECT_NE(one(text).hi, one(other).hi) << length << " bit " << i;
      EXPECT_NE(one(text).lo, one(other).lo) << length << " bit " << i;
    }
  }
}

// Each bit of the input turns half of the output over: no line of the table and no fingerprint is
// likelier than another.
TEST(CounterHasher, OfAProcessSpreadsNeighbouringKeysEvenly) {
  const CounterHasher hasher = CounterHasher::of_process();
  constexpr int kKeys = 4'096;
  std::array<int, 128> ones{};
  std::set<std::uint64_t> lines;
  for (int i = 0; i < kKeys; ++i) {
    const KeyDigest digest = hasher("user:" + std::to_string(i));
    for (std::size_t bit = 0; bit < 64; ++bit) {
      ones[bit] += static_cast<int>(digest.hi >> bit & 1);
      ones[64 + bit] += static_cast<int>(digest.lo >> bit & 1);
    }
    lines.insert(digest.hi >> 52);
  }
  // Seven standard deviations of 32.
  for (const int count : ones) EXPECT_NEAR(count, kKeys / 2, 7 * 32);
  // 4,096 keys on 4,096 places leave 1 / e of them empty.
  EXPECT_NEAR(static_cast<double>(lines.size()), kKeys * 0.632, 200);
}

}  // namespace
}  // namespace weir
