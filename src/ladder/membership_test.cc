#include "ladder/membership.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace weir::ladder {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr Instant at(std::int64_t s) {
  return Instant{seconds(1'700'000'000 + s)};
}

MembershipView view_of(const std::string& self, std::vector<Member> members) {
  return {.history = 1,
          .epoch = 9,
          .self = self,
          .held = false,
          .members = std::move(members),
          .read_at = at(0)};
}

TEST(MembershipView, TheFirstMemberHoldsAllAtOnce) {
  const MembershipView view = view_of("a", {{"a", 1, 1, at(10)}});
  EXPECT_TRUE(view.holds_part());
  EXPECT_EQ(view.counted(at(0)), 1U);
}

TEST(MembershipView, AJoinerCountsAtOnceButHoldsNothingUntilAllHaveSeenIt) {
  EXPECT_FALSE(view_of("b", {{"a", 1, 1, at(10)}, {"b", 2, 2, at(10)}}).holds_part());
  EXPECT_TRUE(view_of("b", {{"a", 1, 2, at(10)}, {"b", 2, 2, at(10)}}).holds_part());
  EXPECT_EQ(view_of("a", {{"a", 1, 2, at(10)}, {"b", 2, 2, at(10)}}).counted(at(0)), 2U);
}

TEST(MembershipView, OneWhoseLeaseIsOverNeedNotSeeTheJoiner) {
  EXPECT_TRUE(view_of("b", {{"a", 1, 1, at(-1)}, {"b", 2, 2, at(10)}}).holds_part());
}

TEST(MembershipView, ASilentLeaverKeepsItsPartForTenMinutes) {
  const MembershipView view = view_of("a", {{"a", 1, 2, at(10)}, {"b", 2, 2, at(0)}});
  EXPECT_EQ(view.counted(at(0) + minutes(10) - seconds(1)), 2U);
  EXPECT_EQ(view.counted(at(0) + minutes(10)), 1U);
}

TEST(MembershipView, IsReadAsItWasWritten) {
  const MembershipView view =
      view_of("a", {{"a", 1, 2, at(10)}, {"host-2:/var/lib/weir", 2, 2, at(-5), true}});
  const auto read = MembershipView::parse(view.to_text());
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->members, view.members);
  EXPECT_EQ(read->epoch, view.epoch);
  EXPECT_EQ(read->history, view.history);
  EXPECT_EQ(read->held, view.holds_part());
  EXPECT_EQ(read->self, view.self);
  EXPECT_EQ(read->read_at, view.read_at);
}

TEST(MembershipView, ATornOrForeignFileIsRefusedAtEveryLength) {
  const std::string whole = view_of("a", {{"a", 1, 2, at(10)}, {"b", 2, 2, at(0)}}).to_text();
  for (std::size_t n = 0; n + 1 < whole.size(); ++n) {
    EXPECT_FALSE(MembershipView::parse(whole.substr(0, n)).has_value()) << n;
  }
  EXPECT_FALSE(MembershipView::parse(whole + "x").has_value());
  EXPECT_FALSE(MembershipView::parse("hello").has_value());
}

std::vector<Division> divisions_of(int workers) {
  std::vector<Member> members;
  for (int i = 0; i < workers; ++i) members.push_back({"w" + std::to_string(i), 1, 99, at(10)});
  std::vector<Division> all;
  for (int i = 0; i < workers; ++i)
    all.push_back(Division::of_view(view_of("w" + std::to_string(i), members)));
  return all;
}

TEST(Division, GivesEveryWorkerADifferentPlaceInEveryKey) {
  const std::vector<Division> all = divisions_of(7);
  std::map<std::uint32_t, int> first;
  for (std::uint64_t key = 0; key < 700; ++key) {
    std::set<std::uint32_t> places;
    for (std::size_t w = 0; w < all.size(); ++w) {
      const std::uint32_t place = all[w].place({0, key * 0x9e3779b97f4a7c15});
      places.insert(place);
      if (place == 0) ++first[static_cast<std::uint32_t>(w)];
    }
    EXPECT_EQ(places.size(), 7U);
    EXPECT_EQ(*places.rbegin(), 6U);
  }
  for (const auto& [worker, times] : first) EXPECT_GT(times, 50) << worker;
}

TEST(Division, AJoinerMovesNobodyForward) {
  const std::vector<Division> five = divisions_of(5);
  const std::vector<Division> six = divisions_of(6);
  for (std::uint64_t key = 0; key < 500; ++key) {
    for (std::size_t w = 0; w < five.size(); ++w) {
      EXPECT_GE(six[w].place({0, key * 77777}), five[w].place({0, key * 77777}));
    }
  }
}

TEST(Division, FixedWorkersTakeTheFloorAndAnIndexedOneTheRemainderToo) {
  EXPECT_EQ(Division::fixed(3, 0).place({1, 2}), 0U);
  EXPECT_EQ(Division::fixed(3, std::nullopt).place({1, 2}), 2U)
      << "last in every order: never the remainder";
  EXPECT_EQ(Division::none("no view").place({1, 2}), 0U);
  EXPECT_FALSE(Division::none("no view").has_part());
}

}  // namespace
}  // namespace weir::ladder
