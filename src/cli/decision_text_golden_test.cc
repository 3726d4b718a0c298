#include "cli/decision_text.h"

#include <gtest/gtest.h>

namespace weir::cli {
namespace {

using namespace std::chrono_literals;

Decision decision(Verdict verdict, Rung rung, Reason reason) {
  Decision d;
  d.verdict = verdict;
  d.rung = rung;
  d.reason = reason;
  d.route = "api";
  return d;
}

TEST(DecisionText, SaysWhoDecidedWhereItWasNotTheStore) {
  Decision d = decision(Verdict::limited, Rung::share, Reason::over_share);
  d.retry_after = 2500ms;
  d.add({.rule = "5 per minute", .limit = 5, .period = 60s, .burst = 5, .remaining = 0});
  EXPECT_EQ(decision_text(d, false),
            "limited  api  over this process's part; decided by share; retry after 3 s: "
            "0 of 5 left (5 per minute)");
}

TEST(DecisionText, SaysThatARemainderIsNotKnown) {
  Decision d = decision(Verdict::allowed, Rung::policy, Reason::store_unavailable);
  d.add({.rule = "5 per minute", .limit = 5, .period = 60s});
  EXPECT_EQ(decision_text(d, false),
            "allowed  api  the store could not be asked; decided by policy: "
            "not known how much is left (5 per minute)");
}

TEST(DecisionText, NeedsNeitherRouteNorRules) {
  Decision d = decision(Verdict::refused, Rung::policy, Reason::unknown_route);
  d.route = {};
  EXPECT_EQ(decision_text(d, false), "refused  no such route");
  EXPECT_EQ(decision_text(decision(Verdict::allowed, Rung::policy, Reason::no_limit), false),
            "allowed  api  no limit applies");
}

TEST(DecisionText, NamesWhatIsWrongWithARequest) {
  Decision lacking = decision(Verdict::refused, Rung::policy, Reason::missing_value);
  lacking.fault = "ip";
  lacking.add({.rule = "3 per minute by ip", .limit = 3, .period = 60s, .fits = false});
  EXPECT_EQ(decision_text(lacking, false),
            "refused  api  no value of ip that can be counted, which 3 per minute by ip needs");
  Decision malformed = decision(Verdict::refused, Rung::policy, Reason::invalid_request);
  EXPECT_EQ(decision_text(malformed, false), "refused  api  outside the stated bounds");
  malformed.fault = "the peer is no address";
  EXPECT_EQ(decision_text(malformed, false), "refused  api  the peer is no address");
}

TEST(DecisionText, MeasuresWhatIsLeftAgainstTheBurst) {
  Decision d = decision(Verdict::allowed, Rung::store, Reason::within_limit);
  d.add({.rule = "r", .limit = 1000, .period = 60s, .burst = 100, .remaining = 99});
  EXPECT_EQ(decision_text(d, true), "\x1b[32mallowed\x1b[0m  api  99 of 100 left (r)");
}

}  // namespace
}  // namespace weir::cli
