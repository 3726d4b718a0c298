#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

#include "testing/manual_clock.h"
#include "weir/guard.h"

// What clients do with the header lines: wait, come back, and count on the numbers.

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr const char* kHeaded = R"(
headers: [draft10, delta, epoch]
inputs: [user]
routes:
  gcra:    {limits: [{requests: 3, per: 2s, by: [user], algorithm: gcra}], protects: nothing}
  fixed:   {limits: [{requests: 3, per: 2s, by: [user], algorithm: fixed_window}], protects: nothing}
  sliding: {limits: [{requests: 3, per: 2s, by: [user], algorithm: sliding_window}], protects: nothing}
  log:     {limits: [{requests: 3, per: 2s, by: [user], algorithm: sliding_log}], protects: nothing}
  minutes: {limits: [{requests: 10, per: minute, by: [user], algorithm: fixed_window}], protects: nothing}
  exact:   {limits: [{requests: 10, per: minute, by: [user], algorithm: sliding_log}], protects: nothing}
  two:
    limits:
      - {requests: 60, per: minute, by: [user], name: minute}
      - {requests: 4, per: hour, by: [user], name: hour, algorithm: sliding_log}
    protects: nothing
)";

struct HttpHeaders : ::testing::Test {
  std::map<std::string, std::string> lines_of(const Decision& decision) {
    std::map<std::string, std::string> lines;
    for (const auto& [name, value] : decision.http_headers()) {
      EXPECT_TRUE(lines.emplace(name, value).second) << name << " twice";
    }
    return lines;
  }
  Decision ask(std::string_view route, std::string_view user = "ada") {
    return guard.check(route, {{"user", user}});
  }
  // At the start of a minute, so that windows begin with the test.
  testing::ManualClock clock{Instant(1'700'000'040s)};
  Guard guard = Guard::open(Policy::parse(kHeaded).value(), {.clock = &clock}).value();
};

// Clients that obeyed a Retry-After of 0, or one rounded down, came too early and looped.
TEST_F(HttpHeaders, WhoWaitsForRetryAfterIsAdmitted) {
  std::minstd_rand random(20260131);
  for (const char* route : {"gcra", "fixed", "sliding", "log"}) {
    int denials = 0;
    for (int trial = 0; trial < 2500; ++trial) {
      clock.advance(Nanos(random() % 3'000'000'000));
      const std::string user = "user" + std::to_string(random() % 3);
      Decision decision = ask(route, user);
      for (int more = static_cast<int>(random() % 5); more > 0 && decision.allowed(); --more) {
        clock.advance(1ms * (random() % 50));
        decision = ask(route, user);
      }
      if (decision.allowed()) continue;
      ++denials;
      const auto lines = lines_of(decision);
      const std::string wait = lines.at("Retry-After");
      ASSERT_TRUE(wait == "1" || wait == "2" || wait == "3") << route << ": " << wait;
      EXPECT_EQ(lines.at("RateLimit-Reset"), wait) << "two lines, two times";
      clock.advance(std::chrono::seconds(std::stoi(wait)));
      ASSERT_TRUE(ask(route, user).allowed()) << route << ", trial " << trial << ", after " << wait;
    }
    EXPECT_GT(denials, 200) << route;
  }
}

TEST_F(HttpHeaders, RetryAfterStaysInItsPeriodWhenTheClockStepsBack) {
  // A sliding window weighs what it held into the next one, so it may ask for more than a period.
  const std::map<std::string, int> longest = {
      {"gcra", 2}, {"fixed", 2}, {"sliding", 3}, {"log", 2}};
  for (const auto& [route, most] : longest) {
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(ask(route).allowed());
    clock.step_wall(-10min);
    const Decision denied = ask(route);
    ASSERT_EQ(denied.verdict, Verdict::limited) << route << ": a step back is no fresh start";
    const int wait = std::stoi(lines_of(denied).at("Retry-After"));
    EXPECT_GE(wait, 1) << route;
    EXPECT_LE(wait, most) << route;
    clock.step_wall(10min);
  }
}

// The length of the window, sent as a constant, made clients wait for nothing.
TEST_F(HttpHeaders, RetryAfterIsTheTimeUntilRoomAndNotTheWindow) {
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(ask("minutes").allowed());
    ASSERT_TRUE(ask("exact").allowed());
    clock.advance(2s);
  }
  EXPECT_EQ(lines_of(ask("minutes")).at("Retry-After"), "40") << "what is left of the window";
  EXPECT_EQ(lines_of(ask("exact")).at("Retry-After"), "40")
      << "until the first call is a minute old";
}

// A 429 that spoke of the limit which had passed: remaining 56, reset in 12 s.
TEST_F(HttpHeaders, DescribeTheLimitThatDenied) {
  Decision decision;
  for (int i = 0; i < 5; ++i) decision = ask("two");
  ASSERT_EQ(decision.verdict, Verdict::limited);
  const auto lines = lines_of(decision);
  EXPECT_EQ(lines.at("X-RateLimit-Limit"), "4");
  EXPECT_EQ(lines.at("X-RateLimit-Remaining"), "0");
  EXPECT_EQ(lines.at("X-RateLimit-Reset"), "1700003640");
  EXPECT_EQ(lines.at("RateLimit"), "\"hour\";r=0;t=3600");
  EXPECT_EQ(lines.at("RateLimit-Policy"), "\"minute\";q=60;w=60, \"hour\";q=4;w=3600");
  EXPECT_EQ(lines.at("Retry-After"), "3600");
}

// A client whose own clock is an hour wrong reads the same from every profile but epoch.
TEST_F(HttpHeaders, CountFromNowWhereTheyAreNotAskedForEpoch) {
  const auto lines = lines_of(ask("two"));
  EXPECT_EQ(lines.at("RateLimit-Reset"), "3600");
  EXPECT_EQ(lines.at("X-RateLimit-Reset"), "1700003640");
  EXPECT_EQ(lines.count("Retry-After"), 0U);
}

}  // namespace
}  // namespace weir
