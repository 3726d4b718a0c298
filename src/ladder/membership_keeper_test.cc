#include "ladder/membership_keeper.h"

#include <gtest/gtest.h>

namespace weir::ladder {
namespace {

using namespace std::chrono_literals;
using Outcome = FleetNews::Outcome;

constexpr Instant at(Nanos after) {
  return Instant{std::chrono::seconds(1'700'000'000)} + after;
}
constexpr MonoTime mono(Nanos after) {
  return MonoTime{std::chrono::hours(5)} + after;
}

FleetNews news(std::uint64_t epoch, std::vector<Member> members, Nanos now = 0s,
               std::uint64_t history = 1) {
  return {.outcome = Outcome::announced,
          .history = history,
          .epoch = epoch,
          .now = at(now),
          .members = std::move(members)};
}

MembershipKeeper keeper(const std::string& self, bool writes = false) {
  return MembershipKeeper({.self = self, .writes = writes, .spread = 3});
}

TEST(MembershipKeeper, BeatsAtOnceWhenTheStoreIsThereAndEveryThirdOfALeaseAfter) {
  MembershipKeeper k = keeper("a");
  EXPECT_FALSE(k.next_beat());
  EXPECT_FALSE(k.poll(mono(0s)));
  k.store_there(mono(0s));
  const auto due = k.poll(mono(0s));
  ASSERT_TRUE(due);
  EXPECT_TRUE(due->first);
  EXPECT_EQ(due->lease, 15s);
  EXPECT_FALSE(k.poll(mono(10s))) << "one at a time";
  EXPECT_TRUE(k.answered(news(1, {{"a", 1, 1, at(15s)}}), mono(0s)));
  EXPECT_TRUE(k.division().has_part());
  EXPECT_EQ(k.division().workers(), 1U);
  ASSERT_TRUE(k.next_beat());
  EXPECT_GE(*k.next_beat(), mono(4500ms));
  EXPECT_LE(*k.next_beat(), mono(5s));
  const auto again = k.poll(mono(5s));
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->first);
  EXPECT_FALSE(k.answered(news(1, {{"a", 1, 1, at(20s)}}, 5s), mono(5s))) << "nothing changed";
}

TEST(MembershipKeeper, IsSilentWhileTheStoreIsAwayAndKeepsItsPart) {
  MembershipKeeper k = keeper("a");
  k.store_there(mono(0s));
  (void)k.poll(mono(0s));
  k.answered(news(2, {{"a", 1, 2, at(15s)}, {"b", 2, 2, at(15s)}}), mono(0s));
  k.store_away();
  EXPECT_FALSE(k.next_beat());
  EXPECT_FALSE(k.poll(mono(5h)));
  EXPECT_TRUE(k.division().has_part());
  EXPECT_EQ(k.division().workers(), 2U) << "whoever cannot read learns nothing about silence";
  k.store_there(mono(5h));
  EXPECT_TRUE(k.poll(mono(5h)));
}

TEST(MembershipKeeper, AJoinerHurriesUntilAllHaveSeenIt) {
  MembershipKeeper k = keeper("b");
  k.store_there(mono(0s));
  (void)k.poll(mono(0s));
  k.answered(news(2, {{"a", 1, 1, at(15s)}, {"b", 2, 2, at(15s)}}), mono(0s));
  EXPECT_FALSE(k.division().has_part());
  EXPECT_LE(*k.next_beat(), mono(1s));
  (void)k.poll(mono(1s));
  EXPECT_TRUE(k.answered(news(2, {{"a", 1, 2, at(15s)}, {"b", 2, 2, at(15s)}}), mono(1s)) ||
              k.division().has_part());
  EXPECT_TRUE(k.division().has_part());
  EXPECT_GT(*k.next_beat(), mono(4s));
}

TEST(MembershipKeeper, TellsThatItHasSeenAJoinerWithoutWaitingForItsTurn) {
  MembershipKeeper k = keeper("a");
  k.store_there(mono(0s));
  (void)k.poll(mono(0s));
  k.answered(news(2, {{"a", 1, 1, at(15s)}, {"b", 2, 2, at(15s)}}), mono(0s));
  EXPECT_LE(*k.next_beat(), mono(40ms));
  EXPECT_EQ(k.poll(mono(40ms))->seen_epoch, 2U);
}

TEST(MembershipKeeper, TellsWhatItHasSeenOnlyOnceItIsWritten) {
  MembershipKeeper k = keeper("a", true);
  k.store_there(mono(0s));
  EXPECT_EQ(k.poll(mono(0s))->seen_epoch, 0U);
  k.answered(news(2, {{"a", 1, 1, at(15s)}, {"b", 2, 2, at(15s)}}), mono(0s));
  const auto text = k.to_write();
  ASSERT_TRUE(text);
  EXPECT_FALSE(k.to_write());
  EXPECT_GT(*k.next_beat(), mono(4s));
  EXPECT_EQ(k.poll(mono(5s))->seen_epoch, 0U);
  k.failed(mono(5s));
  k.written(2, mono(6s));
  EXPECT_LE(*k.next_beat(), mono(6040ms));
  EXPECT_EQ(k.poll(mono(7s))->seen_epoch, 2U);
  const auto view = MembershipView::parse(*text);
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->epoch, 2U);
}

TEST(MembershipKeeper, ADiskThatHangsHoldsUpOthersNoLongerThanALease) {
  MembershipKeeper k = keeper("a", true);
  k.store_there(mono(0s));
  (void)k.poll(mono(0s));
  k.answered(news(2, {{"a", 1, 1, at(15s)}, {"b", 2, 2, at(15s)}}), mono(0s));
  EXPECT_EQ(k.poll(mono(15s))->seen_epoch, 0U);
  k.failed(mono(15s));
  EXPECT_EQ(k.poll(mono(17s))->seen_epoch, 2U);
}

TEST(MembershipKeeper, TheViewIsWrittenAgainBeforeItIsTooOldForAStart) {
  MembershipKeeper k = keeper("a", true);
  k.store_there(mono(0s));
  (void)k.poll(mono(0s));
  k.answered(news(1, {{"a", 1, 1, at(15s)}}), mono(0s));
  EXPECT_TRUE(k.to_write());
  k.written(1, mono(0s));
  (void)k.poll(mono(30s));
  k.answered(news(1, {{"a", 1, 1, at(45s)}}, 30s), mono(30s));
  EXPECT_FALSE(k.to_write());
  (void)k.poll(mono(61s));
  k.answered(news(1, {{"a", 1, 1, at(76s)}}, 61s), mono(61s));
  EXPECT_TRUE(k.to_write());
}

MembershipView file_of_a(Nanos read_at) {
  return {.history = 1,
          .epoch = 2,
          .self = "a",
          .held = true,
          .members = {{"a", 1, 2, at(15s)}, {"b", 2, 2, at(15s)}},
          .read_at = at(read_at)};
}

TEST(MembershipKeeper, AStartWithoutTheStoreTakesUpTheViewOfTheStateFolder) {
  MembershipKeeper k = keeper("a", true);
  EXPECT_FALSE(k.start_from(file_of_a(0s), at(9min)));
  EXPECT_TRUE(k.division().has_part());
  EXPECT_EQ(k.division().workers(), 2U);
  EXPECT_FALSE(k.announced());
  k.store_there(mono(0s));
  const auto due = k.poll(mono(0s));
  EXPECT_TRUE(due->first);
  EXPECT_EQ(due->seen_epoch, 2U);
}

TEST(MembershipKeeper, AViewThatIsOldOrAnothersOrOfNobodyIsNoView) {
  MembershipKeeper k = keeper("a", true);
  EXPECT_TRUE(k.start_from(file_of_a(0s), at(10min)));
  EXPECT_TRUE(k.start_from(file_of_a(0s), at(-10min)));
  EXPECT_FALSE(k.division().has_part());
  EXPECT_FALSE(k.division().why_none().empty());
  EXPECT_TRUE(keeper("b", true).start_from(file_of_a(0s), at(0s)));
  MembershipView without = file_of_a(0s);
  without.members.erase(without.members.begin());
  EXPECT_TRUE(k.start_from(without, at(0s)));
}

TEST(MembershipKeeper, AStoreThatLostTheFleetCostsNobodyItsPart) {
  MembershipKeeper k = keeper("a");
  k.store_there(mono(0s));
  (void)k.poll(mono(0s));
  k.answered(news(2, {{"a", 1, 2, at(15s)}, {"b", 2, 2, at(15s)}}), mono(0s));
  (void)k.poll(mono(5s));
  // Empty, and a third worker was first.
  k.answered(news(901, {{"x", 900, 900, at(20s)}, {"a", 901, 901, at(20s)}}, 5s, 900), mono(5s));
  EXPECT_EQ(k.division().workers(), 3U) << "b still holds its part by what it has read";
  EXPECT_TRUE(k.division().has_part()) << "and so does this one";
  (void)k.poll(mono(10s));
  k.answered(news(901, {{"x", 900, 901, at(600s)}, {"a", 901, 901, at(615s)}}, 600s, 900),
             mono(600s));
  EXPECT_EQ(k.division().workers(), 3U);
  (void)k.poll(mono(700s));
  k.answered(news(901, {{"x", 900, 901, at(620s)}, {"a", 901, 901, at(620s)}}, 606s, 900),
             mono(700s));
  EXPECT_EQ(k.division().workers(), 2U) << "ten minutes after it was last known";
  EXPECT_TRUE(k.division().has_part());
}

// A restart with an older dump, or a failover to a replica that was behind: of one history still.
TEST(MembershipKeeper, AStoreThatWentBackCostsNobodyItsPartAndForgetsNobody) {
  MembershipKeeper k = keeper("a");
  k.set_origin(1);
  k.store_there(mono(0s));
  (void)k.poll(mono(0s));
  k.answered(news(2, {{"a", 1, 2, at(15s)}, {"b", 2, 2, at(15s)}}), mono(0s));
  k.store_away();
  k.set_origin(2);
  k.store_there(mono(3s));
  (void)k.poll(mono(3s));
  // b joined after that list was kept, and has not announced itself again.
  k.answered(news(1, {{"a", 1, 1, at(18s)}}, 3s), mono(3s));
  EXPECT_EQ(k.division().workers(), 2U) << "b still holds its part by what it has read";
  EXPECT_TRUE(k.division().has_part());
  // A third one has taken the number of b's joining.
  (void)k.poll(mono(8s));
  k.answered(news(2, {{"a", 1, 1, at(23s)}, {"c", 2, 2, at(23s)}}, 8s), mono(8s));
  EXPECT_EQ(k.division().workers(), 3U);
}

TEST(MembershipKeeper, AfterTheStoreWentBackItAnnouncesItselfAnewAndHasSeenNothingThere) {
  MembershipKeeper k = keeper("a");
  k.set_origin(1);
  k.store_there(mono(0s));
  (void)k.poll(mono(0s));
  k.answered(news(7, {{"a", 1, 7, at(15s)}}), mono(0s));
  const auto before = k.poll(mono(5s));
  EXPECT_FALSE(before->first);
  EXPECT_EQ(before->seen_epoch, 7U);
  k.failed(mono(5s));
  k.set_origin(2);
  k.store_there(mono(6s));
  const auto after = k.poll(mono(6s));
  EXPECT_TRUE(after->first) << "an earlier process of this name may stand in an older list";
  EXPECT_EQ(after->seen_epoch, 0U) << "what was the seventh there may be another one here";
  k.answered(news(7, {{"a", 1, 1, at(21s)}}, 6s), mono(6s));
  const auto then = k.poll(mono(11s));
  EXPECT_FALSE(then->first);
  EXPECT_EQ(then->seen_epoch, 7U);
}

TEST(MembershipKeeper, WhoWasReplacedReplacesNobodyWhenTheStoreWentBack) {
  MembershipKeeper k = keeper("a");
  k.set_origin(1);
  k.store_there(mono(0s));
  (void)k.poll(mono(0s));
  k.answered(news(1, {{"a", 1, 1, at(15s)}}), mono(0s));
  (void)k.poll(mono(5s));
  FleetNews other = news(1, {{"a", 1, 1, at(20s)}}, 5s);
  other.outcome = Outcome::ousted;
  k.answered(other, mono(5s));
  k.set_origin(2);
  k.store_there(mono(6s));
  EXPECT_FALSE(k.poll(mono(6s))->first);
}

TEST(MembershipKeeper, WhoWasForgottenIsAJoinerAlsoWhereTheStoreWentBack) {
  MembershipKeeper k = keeper("a");
  k.set_origin(1);
  k.store_there(mono(0s));
  (void)k.poll(mono(0s));
  k.answered(news(2, {{"a", 1, 2, at(15s)}, {"b", 2, 2, at(15s)}}), mono(0s));
  k.set_origin(2);
  (void)k.poll(mono(700s));
  k.answered(news(4, {{"a", 4, 4, at(715s)}, {"b", 2, 3, at(715s)}}, 700s), mono(700s));
  EXPECT_FALSE(k.division().has_part());
}

TEST(MembershipKeeper, WhoWasDroppedForItsSilenceIsAJoiner) {
  MembershipKeeper k = keeper("a");
  k.store_there(mono(0s));
  (void)k.poll(mono(0s));
  k.answered(news(2, {{"a", 1, 2, at(15s)}, {"b", 2, 2, at(15s)}}), mono(0s));
  ASSERT_TRUE(k.division().has_part());
  (void)k.poll(mono(5s));
  k.answered(news(3, {{"a", 3, 3, at(1015s)}, {"b", 2, 2, at(1015s)}}, 1000s), mono(1000s));
  EXPECT_FALSE(k.division().has_part());
}

TEST(MembershipKeeper, WhoHoldsAPartIsNotDisturbedByOneThatComesBack) {
  MembershipKeeper k = keeper("b");
  k.store_there(mono(0s));
  (void)k.poll(mono(0s));
  k.answered(news(2, {{"a", 1, 1, at(-1s)}, {"b", 2, 2, at(15s)}}), mono(0s));
  ASSERT_TRUE(k.division().has_part());
  (void)k.poll(mono(5s));
  k.answered(news(2, {{"a", 1, 1, at(20s)}, {"b", 2, 2, at(20s)}}, 5s), mono(5s));
  EXPECT_TRUE(k.division().has_part());
}

TEST(MembershipKeeper, TwoProcessesOfOneNameAreNotTwoParts) {
  MembershipKeeper k = keeper("a");
  k.store_there(mono(0s));
  (void)k.poll(mono(0s));
  k.answered(news(1, {{"a", 1, 1, at(15s)}}), mono(0s));
  (void)k.poll(mono(5s));
  FleetNews other = news(1, {{"a", 1, 1, at(20s)}}, 5s);
  other.outcome = Outcome::ousted;
  EXPECT_TRUE(k.answered(other, mono(5s)));
  EXPECT_FALSE(k.division().has_part());
  EXPECT_NE(k.division().why_none().find("another process"), std::string::npos);
  EXPECT_TRUE(k.next_beat());
  EXPECT_FALSE(k.poll(mono(10s))->first) << "it does not oust the other in turn";
}

TEST(MembershipKeeper, WithoutRoomThereIsNoPart) {
  MembershipKeeper k = keeper("z");
  k.store_there(mono(0s));
  (void)k.poll(mono(0s));
  FleetNews full = news(1, {{"a", 1, 1, at(15s)}});
  full.outcome = Outcome::full;
  k.answered(full, mono(0s));
  EXPECT_FALSE(k.division().has_part());
  EXPECT_TRUE(k.poll(mono(10s))->first);
}

TEST(MembershipKeeper, ALargeFleetBeatsNoMoreThanFiftyTimesASecond) {
  MembershipKeeper k = keeper("w0");
  k.store_there(mono(0s));
  (void)k.poll(mono(0s));
  std::vector<Member> members;
  for (int i = 0; i < 1'000; ++i) members.push_back({"w" + std::to_string(i), 1, 1, at(60s)});
  k.answered(news(1, members), mono(0s));
  EXPECT_GE(*k.next_beat(), mono(18s));
  EXPECT_EQ(k.poll(mono(20s))->lease, 60s);
}

}  // namespace
}  // namespace weir::ladder
