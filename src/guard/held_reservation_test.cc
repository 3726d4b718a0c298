#include "guard/held_reservation.h"

#include <gtest/gtest.h>

#include <string>

namespace weir::guard {
namespace {

HeldReservation one_of_each() {
  return {.reserved = 8,
          .so_far = 5,
          .units = 7,
          .settled = true,
          .expired = false,
          .terms = {.expire = std::chrono::minutes(3), .on_expiry = OnExpiry::last_heartbeat},
          .expires = Instant{std::chrono::seconds(1'700'000'000)},
          .events = {std::string("a\0b", 3), "", std::string(300, 'x')},
          .charges = {{.identity = 1,
                       .stamp = 0xffff'ffff,
                       .digest = {2, ~std::uint64_t{0}},
                       .receipt = Instant{Nanos(-1)},
                       .interval_ns = 315'360'000'000'000'000,  // a unit in ten years
                       .metered = true,
                       .shadow = false,
                       .key = "one"},
                      {.identity = ~std::uint64_t{0},
                       .stamp = 0,
                       .digest = {0, 3},
                       .receipt = Instant{Nanos(4)},
                       .metered = false,
                       .shadow = true,
                       .key = {}}}};
}

void expect_same(const HeldReservation& one, const HeldReservation& other) {
  EXPECT_EQ(one.reserved, other.reserved);
  EXPECT_EQ(one.so_far, other.so_far);
  EXPECT_EQ(one.units, other.units);
  EXPECT_EQ(one.settled, other.settled);
  EXPECT_EQ(one.expired, other.expired);
  EXPECT_EQ(one.terms.expire, other.terms.expire);
  EXPECT_EQ(one.terms.on_expiry, other.terms.on_expiry);
  EXPECT_EQ(one.expires, other.expires);
  EXPECT_EQ(one.events, other.events);
  EXPECT_EQ(one.charges, other.charges);
}

TEST(HeldReservation, IsReadAsItWasWritten) {
  const HeldReservation held = one_of_each();
  const auto read = decode_reservation(encode(held));
  ASSERT_TRUE(read) << read.error().message;
  expect_same(*read, held);
  for (const OnExpiry how : {OnExpiry::full, OnExpiry::last_heartbeat, OnExpiry::zero}) {
    for (const bool settled : {false, true}) {
      const HeldReservation bare{.settled = settled,
                                 .expired = settled,
                                 .terms = {.expire = {}, .on_expiry = how},
                                 .expires = {},
                                 .events = {},
                                 .charges = {}};
      const auto again = decode_reservation(encode(bare));
      ASSERT_TRUE(again);
      expect_same(*again, bare);
    }
  }
}

// The bytes are what journals on disks hold: they never change under their version.
TEST(HeldReservation, IsWrittenAsItAlwaysWas) {
  const HeldReservation held{.reserved = 0x0102,
                             .so_far = 3,
                             .settled = false,
                             .terms = {.expire = Nanos(4), .on_expiry = OnExpiry::zero},
                             .expires = Instant{Nanos(5)},
                             .events = {"ev"},
                             .charges = {}};
  const auto number = [](std::uint64_t value) {
    std::string out;
    for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
    return out;
  };
  std::string expected;
  for (const std::uint64_t each : {1, 0x0102, 3, 0, 0, 4, 2, 5, 1, 2}) expected += number(each);
  EXPECT_EQ(encode(held), expected + "ev" + number(0));
}

// The interval lies above the bits of what kind it is: versions before it wrote zeros there.
TEST(HeldReservation, KeepsTheIntervalBesideTheKindOfACharge) {
  HeldReservation held;
  held.charges.push_back(
      {.interval_ns = 0x0123'4567, .metered = true, .shadow = false, .key = "k"});
  const std::string bytes = encode(held);
  std::string kind = bytes.substr(bytes.size() - 1 - 16, 8);
  EXPECT_EQ(kind, std::string("\x9d\x15\x8d\x04\0\0\0\0", 8));
  std::string before = bytes;
  before.replace(bytes.size() - 1 - 16, 8, std::string("\1\0\0\0\0\0\0\0", 8));
  const auto read = decode_reservation(before);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->charges[0].interval_ns, 0);
  EXPECT_TRUE(read->charges[0].metered);
}

TEST(HeldReservation, IsDamagedWhereverItIsCutShortOrGoesOn) {
  const std::string whole = encode(one_of_each());
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_FALSE(decode_reservation(std::string_view(whole).substr(0, bytes))) << bytes;
  EXPECT_FALSE(decode_reservation(whole + '\0'));
}

TEST(HeldReservation, IsNotReadOfAnotherVersionOrWithAnotherEnd) {
  std::string later = encode(one_of_each());
  later[0] = 2;
  EXPECT_FALSE(decode_reservation(later));
  std::string ends = encode(one_of_each());
  ends[6 * 8] = 3;  // on_expiry
  EXPECT_FALSE(decode_reservation(ends));
}

// Every byte turned: an answer, whichever, and no more memory than there are bytes.
TEST(HeldReservation, ReadsAnyDamage) {
  const std::string whole = encode(one_of_each());
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int turn : {0x01, 0x80, 0xff}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ turn);
      const auto read = decode_reservation(damaged);
      if (!read) continue;
      EXPECT_LE(read->events.size(), 3u);
      EXPECT_LE(read->charges.size(), 2u);
    }
  }
}

}  // namespace
}  // namespace weir::guard
