#include "guard/idempotency_table.h"

#include <gtest/gtest.h>

#include <vector>

namespace weir::guard {
namespace {

using Claim = IdempotencyTable::Claim;

constexpr Instant kNow{std::chrono::seconds(1'700'000'000)};

RequestName name_of(char key, char asked) {
  RequestName name;
  name.key.fill(key);
  name.asked.fill(asked);
  return name;
}

TEST(IdempotencyTable, LetsOneOfManyRecordAndTellsTheOthers) {
  IdempotencyTable table;
  std::vector<std::optional<Rung>> told;
  const auto hear = [&](std::optional<Rung> rung) { told.push_back(rung); };
  EXPECT_EQ(table.claim(name_of('k', 'a'), kNow, hear), Claim::mine);
  EXPECT_EQ(table.claim(name_of('k', 'a'), kNow, hear), Claim::same);
  EXPECT_EQ(table.claim(name_of('k', 'b'), kNow, hear), Claim::other);
  EXPECT_EQ(table.claim(name_of('l', 'b'), kNow, hear), Claim::mine) << "another key";
  EXPECT_FALSE(table.find(name_of('k', 'a'), kNow)) << "not before it is recorded";
  EXPECT_TRUE(told.empty());
  table.keep(name_of('k', 'a'), Rung::share, kNow);
  EXPECT_EQ(told, (std::vector<std::optional<Rung>>{Rung::share}));
  EXPECT_EQ(table.claim(name_of('k', 'a'), kNow, hear), Claim::same);
  EXPECT_EQ(told.size(), 2u) << "at once";
  EXPECT_EQ(table.claim(name_of('k', 'b'), kNow, hear), Claim::other);
}

TEST(IdempotencyTable, IsFreeAgainWhereNothingCouldBeRecorded) {
  IdempotencyTable table;
  std::vector<std::optional<Rung>> told;
  const auto hear = [&](std::optional<Rung> rung) { told.push_back(rung); };
  EXPECT_EQ(table.claim(name_of('k', 'a'), kNow, hear), Claim::mine);
  EXPECT_EQ(table.claim(name_of('k', 'a'), kNow, hear), Claim::same);
  table.release(name_of('k', 'a'));
  EXPECT_EQ(told, (std::vector<std::optional<Rung>>{std::nullopt}));
  EXPECT_EQ(table.claim(name_of('k', 'b'), kNow, hear), Claim::mine);
}

TEST(IdempotencyTable, ForgetsAKeyAfterADay) {
  IdempotencyTable table;
  table.keep(name_of('k', 'a'), Rung::store, kNow);
  EXPECT_TRUE(table.find(name_of('k', 'a'), kNow + kIdempotencyMemory - Nanos(1))->same);
  EXPECT_FALSE(table.find(name_of('k', 'b'), kNow)->same);
  EXPECT_FALSE(table.find(name_of('k', 'a'), kNow + kIdempotencyMemory));
  EXPECT_EQ(table.claim(name_of('k', 'b'), kNow + kIdempotencyMemory, [](auto) {}), Claim::mine);
}

}  // namespace
}  // namespace weir::guard
