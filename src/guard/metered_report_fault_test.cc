// Work that is reported when it is over, as Envoy does it at the end of a stream: nobody reads the
// answer, and nothing of it may be lost.

#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

#include "guard/metered_story_test.h"
#include "guard/route_limiter.h"

namespace weir {
namespace {

using guard::AskedDescriptor;
using guard::DescriptorEntry;
using guard::RateLimitAnswer;
using ledger::testing::eventually;
using testing::FailingDisk;
using testing::kFull;
using testing::MeteredGuard;

class HeardReport final : public guard::RateLimitListener {
 public:
  void answered(std::uint64_t, RateLimitAnswer answer) override {
    told_.set_value(std::move(answer));
  }
  RateLimitAnswer get() { return told_.get_future().get(); }

 private:
  std::promise<RateLimitAnswer> told_;
};

class LateReport : public MeteredGuard {
 protected:
  static RateLimitAnswer ask(Guard& guard, const std::string& account,
                             std::optional<std::uint64_t> hits,
                             const std::string& reservation = "") {
    guard::RouteLimiter limiter(guard);
    std::vector<DescriptorEntry> entries{{"account", account}};
    if (!reservation.empty()) entries.push_back({"weir_reservation", reservation});
    const AskedDescriptor asked{.entries = entries, .limit = std::nullopt, .hits = hits};
    RateLimitAnswer answer;
    HeardReport heard;
    const guard::RateLimitAsk what{.domain = "export", .descriptors = {&asked, 1}};
    return limiter.decide(what, answer, heard, 1) ? std::move(answer) : heard.get();
  }
};

TEST_F(LateReport, IsRecordedBeyondTheLimitToo) {
  auto guard = open();
  EXPECT_TRUE(ask(*guard, "acme", 0).decision.allowed()) << "a probe, before the work";
  const RateLimitAnswer told = ask(*guard, "acme", 14);
  EXPECT_TRUE(told.decision.allowed());
  EXPECT_EQ(left(*guard, "acme"), 0u);
  all_settled(*guard);
  EXPECT_EQ(ledger_of("acme"), (Sums{1, 14, 4}));
  EXPECT_EQ(ask(*guard, "acme", 1).decision.verdict, Verdict::limited)
      << "who asks for one is asking";
}

TEST_F(LateReport, IsRecordedWithoutTheStore) {
  auto guard = open();
  kill_redis({guard.get()});
  EXPECT_TRUE(ask(*guard, "acme", 40).decision.allowed());
  all_settled(*guard);
  EXPECT_EQ(ledger_of("acme"), (Sums{1, 40, 0}));
}

TEST_F(LateReport, IsKeptWhileTheDiskTakesNothing) {
  auto guard = open();
  {
    const FailingDisk disk;
    EXPECT_TRUE(ask(*guard, "acme", 3).decision.allowed());
  }
  ASSERT_TRUE(eventually([&] { return ledger_of("acme").units == 3; }));
}

TEST_F(LateReport, SettlesTheReservationThatItNames) {
  auto guard = open();
  Reservations reservations(*guard);
  const std::string id = reservations.reserve("export", {{"account", "acme"}}, 8, kFull).id;
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(ask(*guard, "acme", 3, id).decision.allowed());
  EXPECT_TRUE(eventually([&] { return left(*guard, "acme") == 7; }));
  const RateLimitAnswer other = ask(*guard, "acme", 4, id);
  EXPECT_EQ(other.decision.reason, Reason::invalid_request);
  EXPECT_EQ(ask(*guard, "acme", 4, "no such").decision.reason, Reason::invalid_request);
  all_settled(*guard);
  EXPECT_EQ(ledger_of("acme"), (Sums{1, 3, 0}));
}

}  // namespace
}  // namespace weir
