#include "render/headers.h"

#include <gtest/gtest.h>

#include <cctype>
#include <set>

namespace weir::render {
namespace {

using namespace std::chrono_literals;

constexpr Instant kDecidedAt{1'700'000'000s + 250ms};
constexpr std::uint8_t kAll = kHeadersDraft10 | kHeadersDelta | kHeadersEpoch;

struct Rule {
  std::string_view name;
  std::uint64_t limit;
  Nanos period;
  std::optional<std::uint64_t> remaining;
  std::optional<Nanos> reset;
  std::optional<Nanos> retry;
  bool fits = true;
  bool never = false;
  bool shadow = false;
};

struct Case {
  std::string_view story;
  Verdict verdict;
  Rung rung;
  Reason reason;
  std::optional<Nanos> retry_after;
  std::vector<Rule> rules;
  std::uint8_t profiles;
  std::string_view expected;  // lines joined by \n
};

Decision decision_of(const Case& c) {
  Decision d;
  d.verdict = c.verdict;
  d.rung = c.rung;
  d.reason = c.reason;
  d.retry_after = c.retry_after;
  d.profiles = c.profiles;
  d.route = "login";
  d.decided_at = kDecidedAt;
  for (const Rule& r : c.rules) {
    d.add({.rule = r.name,
           .limit = r.limit,
           .period = r.period,
           .burst = r.limit,
           .fits = r.fits,
           .never_fits = r.never,
           .shadow = r.shadow,
           .remaining = r.remaining,
           .reset_after = r.reset,
           .retry_after = r.retry});
  }
  return d;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> table = {
      {"allowed by one rule, all profiles",
       Verdict::allowed,
       Rung::store,
       Reason::within_limit,
       std::nullopt,
       {{"5 per minute by ip", 5, 60s, 4, 12s, std::nullopt}},
       kAll,
       "RateLimit-Policy: \"5 per minute by ip\";q=5;w=60\n"
       "RateLimit: \"5 per minute by ip\";r=4;t=12\n"
       "RateLimit-Limit: 5\n"
       "RateLimit-Remaining: 4\n"
       "RateLimit-Reset: 12\n"
       "X-RateLimit-Limit: 5\n"
       "X-RateLimit-Remaining: 4\n"
       "X-RateLimit-Reset: 1700000013\n"},
      {"no profile asked for, allowed: nothing",
       Verdict::allowed,
       Rung::store,
       Reason::within_limit,
       std::nullopt,
       {{"5 per minute by ip", 5, 60s, 4, 12s, std::nullopt}},
       0,
       ""},
      {"no profile asked for, limited: Retry-After all the same",
       Verdict::limited,
       Rung::store,
       Reason::over_limit,
       11001ms,
       {{"5 per minute by ip", 5, 60s, 0, 59s, 11001ms, false}},
       0,
       "Retry-After: 12\n"
       "Cache-Control: no-store\n"},
      {"allowed: the limit closest to exhaustion speaks",
       Verdict::allowed,
       Rung::store,
       Reason::within_limit,
       std::nullopt,
       {{"minute", 60, 60s, 56, 4s, std::nullopt}, {"hour", 1000, 3600s, 3, 3000s, std::nullopt}},
       kHeadersDraft10 | kHeadersDelta,
       "RateLimit-Policy: \"minute\";q=60;w=60, \"hour\";q=1000;w=3600\n"
       "RateLimit: \"hour\";r=3;t=3000\n"
       "RateLimit-Limit: 1000\n"
       "RateLimit-Remaining: 3\n"
       "RateLimit-Reset: 3000\n"},
      {"limited: the denying limit speaks, not the one that passed",
       Verdict::limited,
       Rung::store,
       Reason::over_limit,
       2999500ms,
       {{"minute", 60, 60s, 56, 4s, std::nullopt},
        {"hour", 60, 3600s, 0, 2999500ms, 2999500ms, false}},
       kAll,
       "RateLimit-Policy: \"minute\";q=60;w=60, \"hour\";q=60;w=3600\n"
       "RateLimit: \"hour\";r=0;t=3000\n"
       "RateLimit-Limit: 60\n"
       "RateLimit-Remaining: 0\n"
       "RateLimit-Reset: 3000\n"
       "X-RateLimit-Limit: 60\n"
       "X-RateLimit-Remaining: 0\n"
       "X-RateLimit-Reset: 1700003001\n"
       "Retry-After: 3000\n"
       "Cache-Control: no-store\n"},
      {"limited by two: the longest wait speaks, wherever it stands",
       Verdict::limited,
       Rung::store,
       Reason::over_limit,
       40s,
       {{"day", 100, 86400s, 0, 40s, 40s, false}, {"second", 1, 1s, 0, 1s, 1s, false}},
       kHeadersDelta,
       "RateLimit-Limit: 100\n"
       "RateLimit-Remaining: 0\n"
       "RateLimit-Reset: 40\n"
       "Retry-After: 40\n"
       "Cache-Control: no-store\n"},
      {"limited by a token bucket: Reset and Retry-After name one time",
       Verdict::limited,
       Rung::store,
       Reason::over_limit,
       1ns,
       {{"bucket", 60, 60s, 0, 60s, 1ns, false}},
       kHeadersDraft10 | kHeadersDelta,
       "RateLimit-Policy: \"bucket\";q=60;w=60\n"
       "RateLimit: \"bucket\";r=0;t=1\n"
       "RateLimit-Limit: 60\n"
       "RateLimit-Remaining: 0\n"
       "RateLimit-Reset: 1\n"
       "Retry-After: 1\n"
       "Cache-Control: no-store\n"},
      {"the cost can never fit: neither Retry-After nor Reset, what is left stays true",
       Verdict::limited,
       Rung::store,
       Reason::cost_exceeds_burst,
       std::nullopt,
       {{"day", 100, 86400s, 0, 90s, 90s, false},
        {"small", 5, 60s, 5, 0s, std::nullopt, false, true}},
       kHeadersDelta,
       "RateLimit-Limit: 5\n"
       "RateLimit-Remaining: 5\n"
       "Cache-Control: no-store\n"},
      {"blocked: a limit of 0 is known to be 0",
       Verdict::limited,
       Rung::store,
       Reason::blocked,
       std::nullopt,
       {{"blocked", 0, 1s, 0, 0s, std::nullopt, false, true}},
       kAll,
       "RateLimit-Policy: \"blocked\";q=0;w=1\n"
       "RateLimit: \"blocked\";r=0\n"
       "RateLimit-Limit: 0\n"
       "RateLimit-Remaining: 0\n"
       "X-RateLimit-Limit: 0\n"
       "X-RateLimit-Remaining: 0\n"
       "Cache-Control: no-store\n"},
      {"open while the store is away: no number is known, none is said",
       Verdict::allowed,
       Rung::policy,
       Reason::store_unavailable,
       std::nullopt,
       {{"5 per minute by ip", 5, 60s, std::nullopt, std::nullopt, std::nullopt}},
       kAll,
       "RateLimit-Policy: \"5 per minute by ip\";q=5;w=60\n"
       "RateLimit-Limit: 5\n"
       "X-RateLimit-Limit: 5\n"
       "Weir-Rung: policy\n"},
      {"refused: a hint, and no numbers",
       Verdict::refused,
       Rung::policy,
       Reason::store_unavailable,
       8s,
       {{"5 per minute by ip", 5, 60s, std::nullopt, std::nullopt, std::nullopt, false}},
       kHeadersDelta,
       "RateLimit-Limit: 5\n"
       "Retry-After: 8\n"
       "Weir-Rung: policy\n"
       "Cache-Control: no-store\n"},
      {"limited over this worker's part",
       Verdict::limited,
       Rung::share,
       Reason::over_share,
       3s,
       {{"5 per minute by ip", 5, 60s, 0, 9s, 3s, false}},
       kHeadersDelta,
       "RateLimit-Limit: 5\n"
       "RateLimit-Remaining: 0\n"
       "RateLimit-Reset: 3\n"
       "Retry-After: 3\n"
       "Weir-Rung: share\n"
       "Cache-Control: no-store\n"},
      {"a shadow rule is never described",
       Verdict::allowed,
       Rung::store,
       Reason::within_limit,
       std::nullopt,
       {{"trial", 1, 60s, 0, 60s, 60s, false, false, true}, {"real", 10, 60s, 9, 6s, std::nullopt}},
       kHeadersDraft10 | kHeadersDelta,
       "RateLimit-Policy: \"real\";q=10;w=60\n"
       "RateLimit: \"real\";r=9;t=6\n"
       "RateLimit-Limit: 10\n"
       "RateLimit-Remaining: 9\n"
       "RateLimit-Reset: 6\n"},
      {"only shadow rules: nothing to describe",
       Verdict::allowed,
       Rung::store,
       Reason::within_limit,
       std::nullopt,
       {{"trial", 1, 60s, 0, 60s, 60s, false, false, true}},
       kAll,
       ""},
      {"a window below a second cannot be said in whole seconds",
       Verdict::allowed,
       Rung::store,
       Reason::within_limit,
       std::nullopt,
       {{"fast", 5, 250ms, 4, 50ms, std::nullopt}},
       kHeadersDraft10,
       "RateLimit-Policy: \"fast\";q=5\n"
       "RateLimit: \"fast\";r=4;t=1\n"},
      {"names are escaped as structured strings",
       Verdict::allowed,
       Rung::store,
       Reason::within_limit,
       std::nullopt,
       {{"a\"b\\c\r\nX-Evil: 1 caf\xc3\xa9 15%", 5, 60s, 4, 12s, std::nullopt}},
       kHeadersDraft10,
       "RateLimit-Policy: \"a\\\"b\\\\c%0D%0AX-Evil: 1 caf%C3%A9 15%25\";q=5;w=60\n"
       "RateLimit: \"a\\\"b\\\\c%0D%0AX-Evil: 1 caf%C3%A9 15%25\";r=4;t=12\n"},
      {"unknown route: nothing was limited, nothing is degraded, waiting is useless",
       Verdict::refused,
       Rung::policy,
       Reason::unknown_route,
       std::nullopt,
       {},
       kAll,
       "Cache-Control: no-store\n"},
      {"no limit applied",
       Verdict::allowed,
       Rung::policy,
       Reason::no_limit,
       std::nullopt,
       {},
       kAll,
       ""},
  };
  return table;
}

TEST(Headers, SayWhatTheTableSays) {
  for (const Case& c : cases()) {
    std::string expected;
    for (const char ch : c.expected)
      expected += ch == '\n' ? std::string("\r\n") : std::string(1, ch);
    std::string lines;
    append_headers(lines, decision_of(c));
    EXPECT_EQ(lines, expected) << c.story;
  }
}

TEST(Headers, NameEachHeaderOnce) {
  for (const Case& c : cases()) {
    std::set<std::string> names;
    for (const auto& [name, value] : http_headers(decision_of(c))) {
      std::string lower = name;
      for (char& ch : lower) ch = static_cast<char>(std::tolower(static_cast<unsigned char>(ch)));
      EXPECT_TRUE(names.insert(lower).second) << c.story << ": " << name;
      EXPECT_FALSE(value.empty()) << c.story << ": " << name;
    }
  }
}

TEST(Headers, PairsSayWhatTheLinesSay) {
  for (const Case& c : cases()) {
    const Decision d = decision_of(c);
    std::string lines;
    append_headers(lines, d);
    std::string joined;
    for (const auto& [name, value] : d.http_headers())
      joined.append(name).append(": ").append(value).append("\r\n");
    EXPECT_EQ(joined, lines) << c.story;
  }
}

// Clients that were told 0, a negative or a fractional second looped or crashed.
TEST(Headers, RetryAfterIsAWholePositiveNumberAndNeverTooShort) {
  Decision d;
  d.verdict = Verdict::limited;
  d.rung = Rung::store;
  d.reason = Reason::over_limit;
  for (std::int64_t ms = -2000; ms <= 5000; ++ms) {
    d.retry_after = std::chrono::milliseconds(ms);
    const std::uint64_t seconds = retry_after_seconds(d).value_or(0);
    EXPECT_GE(seconds, 1U);
    EXPECT_GE(std::chrono::seconds(seconds), std::chrono::milliseconds(ms));
    if (ms > 1000) {
      EXPECT_LT(std::chrono::seconds(seconds), std::chrono::milliseconds(ms) + 1s);
    }
  }
}

TEST(Headers, RefusalsComeBackSpreadAndNeverBeforeTheHint) {
  Decision d;
  d.verdict = Verdict::refused;
  d.reason = Reason::store_unavailable;
  for (const Nanos hint : {Nanos(1ms), Nanos(5s), Nanos(40s)}) {
    std::set<std::uint64_t> seen;
    for (int i = 0; i < 1000; ++i) {
      d.decided_at = kDecidedAt + i * 1us;
      d.retry_after = hint;
      const std::uint64_t seconds = retry_after_seconds(d).value_or(0);
      EXPECT_EQ(seconds, retry_after_seconds(d)) << "one decision renders alike";
      EXPECT_GE(std::chrono::seconds(seconds), hint);
      EXPECT_LE(std::chrono::seconds(seconds), hint + hint / 4 + 2s);
      seen.insert(seconds);
    }
    EXPECT_GT(seen.size(), 1U) << "no jitter";
  }
}

}  // namespace
}  // namespace weir::render
