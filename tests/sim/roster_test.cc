#include "sim/roster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace weir::sim {
namespace {

using namespace std::chrono_literals;
using ladder::Division;
using ladder::MembershipView;
using store::redis::FleetReply;

// One list, and workers whose views are said outright.
class Town {
 public:
  // A beat of a worker, after which it goes by a view of these members, itself included.
  void beat(const std::string& name, const std::vector<std::string>& counts, bool held = true) {
    beat_unheard(name);
    MembershipView view{.history = 1,
                        .epoch = epoch_,
                        .self = name,
                        .held = held,
                        .members = {},
                        .read_at = loop_.now()};
    for (const std::string& each : counts) {
      view.members.push_back({each, epoch_, epoch_, loop_.now() + 15s});
    }
    std::erase_if(holders_, [&](const Holder& holder) { return holder.name == name; });
    holders_.push_back({name, view, Division::of_view(view)});
  }
  // The server carries it out, and the answer is lost.
  void beat_unheard(const std::string& name) {
    loop_.run_for(10ms);
    const auto in_list = std::find_if(list_.begin(), list_.end(),
                                      [&](const auto& member) { return member.name == name; });
    const bool joins = in_list == list_.end();
    if (!joins) in_list->lease_until = loop_.now() + 15s;
    if (joins) {
      ++epoch_;
      list_.push_back({.name = name,
                       .joined_epoch = epoch_,
                       .seen_epoch = epoch_,
                       .lease_until = loop_.now() + 15s});
    }
    const FleetReply reply{.now = loop_.now(), .history = 1, .epoch = epoch_, .members = list_};
    roster_.beat(name, joins ? 'n' : 'b', reply, holders_);
  }
  void pass(Nanos time) { loop_.run_for(time); }
  // The last to join is in the list no more: the server has an older one.
  void list_before_the_last() {
    loop_.run_for(10ms);
    roster_.lost(holders_);
    list_.pop_back();
    --epoch_;
  }
  void lose_list() {
    loop_.run_for(10ms);
    roster_.lost(holders_);
    list_.clear();
  }
  Roster::Parts parts() const { return Roster::parts(numbers(), kCounter, roster_.see(holders_)); }
  std::string text() const {
    return Roster::parts_text(numbers(), kCounter, roster_.see(holders_));
  }

 private:
  static constexpr KeyDigest kCounter{1, 2};
  static limit::Numbers numbers() {
    limit::Numbers numbers;
    numbers.algorithm = Algorithm::fixed_window;
    numbers.limit = numbers.burst = 12;
    numbers.period_ns = Nanos(1min).count();
    return numbers;
  }

  testing::SimLoop loop_;
  Roster roster_{loop_};
  std::vector<store::redis::FleetMember> list_;
  std::uint64_t epoch_ = 0;
  std::vector<Holder> holders_;
};

// a and b have met; then the list was lost, and c was the first of the next.
Town joined_a_lost_list() {
  Town town;
  town.beat("a", {"a"});
  town.beat("b", {"a", "b"});
  town.beat("a", {"a", "b"});
  town.lose_list();
  town.beat("c", {"c"});
  return town;
}

TEST(Roster, WhoeverJoinsALostListIsLeftOutUntilTheOthersAreBack) {
  Town town = joined_a_lost_list();
  EXPECT_EQ(town.parts().sum, 12U) << town.text();
  EXPECT_EQ(town.parts().with_left_out, 24U);
  town.beat("a", {"a", "b", "c"});
  town.beat("b", {"a", "b", "c"});
  EXPECT_FALSE(town.parts().all) << "it has not read that they are there";
  town.beat("c", {"a", "b", "c"});
  EXPECT_TRUE(town.parts().all);
  EXPECT_EQ(town.parts().sum, 12U);
}

// c holds on to its part, as everybody does; b was back in the new list before c was.
TEST(Roster, WhereTheListIsLostOnceMoreUntilTheOthersHaveReadIt) {
  Town town = joined_a_lost_list();
  town.lose_list();
  town.beat("b", {"a", "b"});
  EXPECT_EQ(town.parts().sum, 12U);
  town.beat("c", {"b", "c"});
  town.beat("a", {"a", "b", "c"});
  town.beat("c", {"a", "b", "c"});
  EXPECT_EQ(town.parts().with_left_out, 14U) << "b divides by two";
  EXPECT_LE(town.parts().sum, 12U) << town.text();
  town.beat("b", {"a", "b", "c"});
  EXPECT_TRUE(town.parts().all) << town.text();
  EXPECT_EQ(town.parts().sum, 12U);
}

TEST(Roster, WhoWasThereBeforeTheLossIsNotLeftOut) {
  Town town = joined_a_lost_list();
  town.lose_list();
  town.beat("b", {"b"});
  EXPECT_EQ(town.parts().sum, 18U) << "b no longer counts a, who is there";
}

// c came to the list that was lost, and again to the older one, under the same number; a was
// stopped in between, until its lease was over.
TEST(Roster, WhoJoinsAnOlderListUnderTheSameNumberJoinsItThen) {
  Town town;
  town.beat("a", {"a"});
  town.beat("b", {"a", "b"});
  town.beat("a", {"a", "b"});
  town.beat_unheard("c");
  town.list_before_the_last();
  town.beat("a", {"a", "b"});
  town.beat("b", {"a", "b"});
  EXPECT_EQ(town.parts().sum, 12U) << town.text();
  town.pass(10s);
  town.beat("b", {"a", "b"});
  town.pass(10s);
  town.beat("c", {"a", "b", "c"});
  town.beat("b", {"a", "b", "c"});
  EXPECT_EQ(town.parts().with_left_out, 14U) << "a divides by two";
  EXPECT_LE(town.parts().sum, 12U) << town.text();
  town.beat("a", {"a", "b", "c"});
  EXPECT_TRUE(town.parts().all) << town.text();
  EXPECT_EQ(town.parts().sum, 12U);
}

}  // namespace
}  // namespace weir::sim
