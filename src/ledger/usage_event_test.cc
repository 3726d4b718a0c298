#include "ledger/usage_event.h"

#include <gtest/gtest.h>

#include <limits>

namespace weir::ledger {
namespace {

UsageEvent sample() {
  return {.id = {0x0123456789abcdef, 42},
          .tenant = std::string_view("acme\0\xff", 6),
          .route = "export",
          .rule = "1000 per day by account",
          .idempotency_key = "order-7",
          .units = 3,
          .overspent = 2,
          .mode = policy::OverspendMode::bill,
          .outage = true,
          .at = Instant{std::chrono::seconds(1'700'000'123)},
          .window_start = Instant{std::chrono::seconds(1'699'920'000)},
          .window = std::chrono::hours(24)};
}

TEST(UsageEvent, IsReadAsItWasWritten) {
  std::string bytes = "before";
  ASSERT_TRUE(encode(sample(), bytes));
  const auto read = decode(std::string_view(bytes).substr(6));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, sample());
  EXPECT_EQ(read->id.text(), "0123456789abcdef000000000000002a");
}

TEST(UsageEvent, KeepsTheLargestAndTheSmallestNumbers) {
  UsageEvent event;
  event.units = std::numeric_limits<std::uint64_t>::max();
  event.overspent = event.units;
  event.at = Instant::min();
  event.window_start = Instant::max();
  event.window = Nanos::max();
  std::string bytes;
  ASSERT_TRUE(encode(event, bytes));
  EXPECT_EQ(decode(bytes).value(), event);
}

TEST(UsageEvent, CutAtAnyByteIsNoEvent) {
  std::string bytes;
  ASSERT_TRUE(encode(sample(), bytes));
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(decode(std::string_view(bytes).substr(0, length))) << length;
  EXPECT_FALSE(decode(bytes + '\0'));
}

TEST(UsageEvent, WithAnyBitTurnedIsNoEvent) {
  std::string bytes;
  ASSERT_TRUE(encode(sample(), bytes));
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(decode(damaged)) << bit;
  }
}

TEST(UsageEvent, ThatIsTooLongIsRefusedAndLeavesNothing) {
  const std::string tenant(kMaxEventBytes, 't');
  UsageEvent event = sample();
  event.tenant = tenant;
  std::string bytes = "before";
  const auto written = encode(event, bytes);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(bytes, "before");
}

}  // namespace
}  // namespace weir::ledger
