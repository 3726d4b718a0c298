// The scripts that ship, in liblua5.1 and in a real server, against the naive model: the same
// decisions for the same trace, to the nanosecond.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <ostream>
#include <random>
#include <sstream>

#include "policy/key.h"
#include "store/redis/ask_codec.h"
#include "store/redis/script.h"
#include "testing/lua_redis.h"
#include "testing/model_limiter.h"
#include "testing/resp_commands.h"

namespace weir::store::redis {
namespace {

using limit::Numbers;
using namespace std::chrono_literals;

constexpr Instant kStart{1'700'000'000s};

// One side of the comparison: an ask goes to the script by way of its wire format.
class ScriptSide {
 public:
  explicit ScriptSide(testing::LuaRedis& redis) : redis_(redis) {}

  struct Answer {
    DecodedAsk decoded;
    std::vector<CounterReply> replies;
  };

  Answer ask(std::span<const Counter> counters, const AskOptions& options, const AskTimes& times) {
    std::string command;
    const AskForm form = append_ask(counters, options, times, keys_, true, command);
    testing::RespCommands commands;
    commands.feed(command);
    reader_.reset();
    const std::string bytes = redis_.execute(commands.next().value());
    EXPECT_TRUE(reader_.feed(bytes));
    EXPECT_EQ(reader_.next(), ReplyReader::Next::reply);
    EXPECT_EQ(reader_.reply().error(), "");
    Answer answer;
    answer.decoded =
        decode_ask(reader_.reply(), form, counters, options, times, redis_.now(), answer.replies);
    return answer;
  }

 private:
  testing::LuaRedis& redis_;
  KeySpace keys_ = KeySpace::make("weir", "").value();
  ReplyReader reader_;
};

std::ostream& operator<<(std::ostream& out, const limit::Step& step) {
  return out << "outcome " << static_cast<int>(step.outcome) << " remaining " << step.remaining
             << " retry " << step.retry_after_ns << " reset " << step.reset_after_ns;
}

bool same(const Finding& a, const Finding& b) {
  return a.step.outcome == b.step.outcome && a.step.remaining == b.step.remaining &&
         a.step.retry_after_ns == b.step.retry_after_ns &&
         a.step.reset_after_ns == b.step.reset_after_ns && a.charged == b.charged &&
         a.units == b.units;
}

struct World {
  bool client_clock = false;  // `now` is passed, to the nanosecond
  bool forgets = false;       // keys expire; then time only goes forward, and there is one worker
  bool plain = false;      // takes of gcra and fixed windows, which the script has short ways for
  bool long_logs = false;  // logs of hundreds of charges, which the script reads in blocks
};

// A random life of a few counters, told to the model and to the script.
class Trace {
 public:
  Trace(std::uint64_t seed, World world)
      : random_(seed), world_(world), redis_(kStart), side_(redis_) {
    redis_.set_expiry(world.forgets);
    for (int i = 0; i < (world.long_logs ? 2 : 5); ++i) add_counter();
  }

  // Runs so many asks; the first difference, with what led there.
  std::string run(int asks) {
    for (int i = 0; i < asks; ++i) {
      std::string difference = step();
      if (!difference.empty()) return story_.str() + difference;
    }
    return {};
  }
  // Of the lists that there were, the longest at the time of an ask.
  std::size_t longest() const { return longest_; }

 private:
  struct Kept {
    std::array<Numbers, 2> numbers;  // as each of the two workers knows them
    std::string key;
    KeyDigest digest;
    std::deque<Instant> receipts;
    std::deque<std::uint64_t> charged;
  };

  std::uint64_t below(std::uint64_t n) { return random_() % n; }

  Nanos random_period() {
    if (world_.long_logs) return 60s;
    switch (below(5)) {
      case 0:
        return Nanos{static_cast<std::int64_t>(1 + below(5'000'000'000))};
      case 1:
        return 1s;
      case 2:
        return 60s;
      case 3:
        return 3600s;
      default:
        return Nanos{static_cast<std::int64_t>(1'000 + below(1'000'000))};
    }
  }

  std::uint64_t random_limit() {
    switch (below(6)) {
      case 0:
        return below(3);
      case 1:
        return below(kMaxUnits + 1);
      default:
        return 1 + below(12);
    }
  }

  Numbers random_numbers(Algorithm algorithm, Nanos period, limit::Calendar calendar) {
    for (;;) {
      limit::Request request;
      request.algorithm = algorithm;
      request.limit = algorithm == Algorithm::sliding_log ? below(14) : random_limit();
      if (world_.long_logs) request.limit = 300 + below(700);
      if (algorithm == Algorithm::gcra && request.limit > 0 && below(2) == 0) {
        request.burst = 1 + below(20);
      }
      request.period = {calendar == limit::Calendar::none ? period : Nanos{0}, calendar, 1};
      const auto made = Numbers::make(request);
      if (made.has_value()) return *made;
    }
  }

  void add_counter() {
    Kept kept;
    const auto algorithm = world_.long_logs ? Algorithm::sliding_log
                                            : static_cast<Algorithm>(below(world_.plain ? 2 : 4));
    const bool by_calendar = algorithm == Algorithm::fixed_window && below(3) == 0;
    const auto calendar =
        by_calendar ? static_cast<limit::Calendar>(1 + below(4)) : limit::Calendar::none;
    kept.numbers.fill(random_numbers(algorithm, random_period(), calendar));
    std::vector<char> buffer(policy::KeyWriter::kMaxKeyBytes);
    policy::KeyWriter writer(buffer.data(), counters_.size());
    kept.key = std::string(writer.view());
    kept.digest = {counters_.size(), 1};
    counters_.push_back(kept);
  }

  void move_time() {
    const Nanos period{counters_[below(counters_.size())].numbers[0].period_ns};
    std::int64_t by = 0;
    if (world_.long_logs && below(700) != 0) {
      set_time(Nanos{static_cast<std::int64_t>(below(1 + period.count() / 1'000))});
      return;
    }
    switch (below(8)) {
      case 0:
        by = 0;
        break;
      case 1:
        by = 1;
        break;
      case 2:
        by = -static_cast<std::int64_t>(below(1'200'000'000));
        break;
      case 3:
        by = below(6) == 0 ? -static_cast<std::int64_t>(below(1 + period.count() * 3)) : 0;
        break;
      case 4:
        by = static_cast<std::int64_t>(below(1 + period.count() * 2));
        break;
      default:
        by = static_cast<std::int64_t>(below(1 + period.count() / 5));
        break;
    }
    set_time(Nanos{by});
  }

  void set_time(Nanos by) {
    Instant next = redis_.now() + by;
    if (next < kStart) next = kStart;
    if (world_.forgets && by < Nanos{0}) return;
    if (!world_.client_clock) next = std::chrono::floor<std::chrono::microseconds>(next);
    redis_.set_now(next);
  }

  // One worker loads a new policy.
  void change_numbers() {
    const std::size_t worker = world_.forgets ? 0 : below(2);
    Numbers& numbers = counters_[below(counters_.size())].numbers[worker];
    numbers = random_numbers(numbers.algorithm, Nanos{numbers.period_ns}, numbers.calendar);
    loads_[worker] = ++last_load_;
  }

  Counter random_counter(Kept& kept, std::size_t worker) {
    const Numbers& numbers = kept.numbers[worker];
    Counter counter;
    counter.numbers = &numbers;
    counter.key = kept.key;
    counter.digest = kept.digest;
    counter.generation = loads_[worker];
    if (world_.long_logs && below(15) != 0) return counter;
    counter.shadow = !world_.plain && below(10) == 0;
    switch (below(12)) {
      case 0:
        counter.cost = 0;
        break;
      case 1:
        counter.cost = random_();
        break;
      case 2:
        counter.cost = numbers.burst;
        break;
      case 3:
        counter.cost = numbers.burst + std::uint64_t{1};
        break;
      case 4:
        counter.cost = 1 + below(numbers.burst + std::uint64_t{1});
        break;
      default:
        counter.cost = 1 + below(3);
        break;
    }
    if (world_.plain) {
      counter.cost = std::max<std::uint64_t>(counter.cost, 1);
      return counter;
    }
    switch (below(10)) {
      case 0:
        if (world_.long_logs && below(10) != 0) break;  // one of them fills a log
        counter.op = Op::drain;
        break;
      case 1:
        if (!kept.receipts.empty()) {
          counter.op = Op::refund;
          const std::size_t i = below(kept.receipts.size());
          counter.receipt = kept.receipts[i];
          counter.cost = 1 + below(kept.charged[i]);
          kept.receipts.erase(kept.receipts.begin() + static_cast<std::ptrdiff_t>(i));
          kept.charged.erase(kept.charged.begin() + static_cast<std::ptrdiff_t>(i));
        }
        break;
      case 2:
        if (below(8) == 0) counter.op = Op::reset;
        break;
      default:
        break;
    }
    return counter;
  }

  std::string step() {
    move_time();
    if (below(world_.long_logs ? 500 : 25) == 0) change_numbers();
    const std::size_t worker = world_.forgets ? 0 : below(2);
    std::vector<Kept*> chosen;
    std::vector<Counter> counters;
    const std::size_t count = below(3) == 0 ? 1 + below(counters_.size()) : 1;
    const std::size_t first = below(counters_.size());
    for (std::size_t i = 0; i < count; ++i) {
      chosen.push_back(&counters_[(first + i) % counters_.size()]);
      counters.push_back(random_counter(*chosen.back(), worker));
    }
    return compare(chosen, counters, loads_[worker]);
  }

  std::string compare(const std::vector<Kept*>& chosen, const std::vector<Counter>& asked,
                      std::uint32_t load) {
    const Instant now = redis_.now();
    AskOptions options;
    options.loaded_at = Instant{std::chrono::milliseconds(load)};
    if (world_.client_clock) options.now = now;
    options.expiry_margin_ms = world_.client_clock ? 2'000 : 1'000;
    const AskTimes times{.not_after = now + Nanos{static_cast<std::int64_t>(below(20'000'000))},
                         .estimate = now - Nanos{static_cast<std::int64_t>(below(2)) * 100}};
    std::vector<Finding> expected(asked.size());
    const LocalAnswer truth = model_.decide(asked, now, expected);
    auto answer = side_.ask(asked, options, times);
    for (int i = 0; answer.decoded.outcome == AskOutcome::astray && i < 2; ++i) {
      answer = side_.ask(asked, options, {times.not_after, now});
    }
    tell(asked, truth.allowed, now);
    std::ostringstream out;
    if (answer.decoded.outcome != AskOutcome::decided) {
      out << "outcome " << static_cast<int>(answer.decoded.outcome);
      return out.str();
    }
    if (answer.decoded.disagreed) out << "script and C++ disagree\n";
    if (answer.decoded.allowed != truth.allowed) {
      out << "model: " << truth.allowed << ", script: " << answer.decoded.allowed << '\n';
    }
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const Finding& found = answer.replies[i].finding;
      if (!same(found, expected[i])) {
        out << "counter " << i << "\n  model:  " << expected[i].step << " charged "
            << expected[i].charged << "\n  script: " << found.step << " charged " << found.charged
            << '\n';
      }
      if (expected[i].charged) {
        if (found.step.receipt() != expected[i].step.receipt()) out << "receipts differ\n";
        chosen[i]->receipts.push_back(found.step.receipt());
        chosen[i]->charged.push_back(std::max<std::uint64_t>(found.units, 1));
      }
    }
    for (const auto& [name, value] : redis_.keys()) {
      if (!value.expires_at) out << name << " has no time to live\n";
      if (const auto* list = std::get_if<std::deque<std::string>>(&value.data)) {
        longest_ = std::max(longest_, list->size());
      }
    }
    return out.str();
  }

  void tell(const std::vector<Counter>& counters, bool allowed, Instant now) {
    story_ << now.time_since_epoch().count() << (allowed ? " allowed" : " denied ");
    for (const Counter& counter : counters) {
      story_ << " | " << to_string(counter.numbers->algorithm) << ' ' << to_text(*counter.numbers)
             << " burst " << counter.numbers->burst << " op " << static_cast<int>(counter.op)
             << " cost " << counter.cost << (counter.shadow ? " shadow" : "") << " key "
             << counter.digest.hi;
    }
    story_ << '\n';
  }

  std::mt19937_64 random_;
  const World world_;
  testing::LuaRedis redis_;
  ScriptSide side_;
  testing::ModelLimiter model_;
  std::vector<Kept> counters_;
  std::array<std::uint32_t, 2> loads_{1, 1};
  std::uint32_t last_load_ = 1;
  std::size_t longest_ = 0;
  std::ostringstream story_;
};

std::string tail(const std::string& story, std::size_t lines = 40) {
  std::size_t at = story.size();
  for (std::size_t i = 0; i < lines && at != std::string::npos && at > 0; ++i) {
    at = story.rfind('\n', at - 1);
  }
  return at == std::string::npos ? story : story.substr(at);
}

// WEIR_SEEDS=first-last runs others than the usual ones.
void compare_with_model(World world) {
  std::uint64_t first = 1;
  std::uint64_t last = 60;
  if (const char* asked = std::getenv("WEIR_SEEDS")) {
    std::sscanf(asked, "%" SCNu64 "-%" SCNu64, &first, &last);
  }
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    const std::string difference = Trace(seed, world).run(150);
    ASSERT_TRUE(difference.empty())
        << tail(difference) << "replay: WEIR_SEEDS=" << seed << '-' << seed
        << " weir_store_conformance_tests --gtest_filter='Scripts.*'";
  }
}

TEST(Scripts, DecideAsTheModelDoesOnTheClientsClock) {
  compare_with_model({.client_clock = true});
}

TEST(Scripts, DecideAsTheModelDoesOnTheirOwnClock) {
  compare_with_model({});
}

TEST(Scripts, DecideAsTheModelDoesByTheirShortWays) {
  compare_with_model({.plain = true});
  compare_with_model({.forgets = true, .plain = true});
}

TEST(Scripts, DecideAsTheModelDoesOfLogsThatAreReadInBlocks) {
  std::size_t longest = 0;
  for (const World world : {World{.client_clock = true, .long_logs = true},
                            World{.forgets = true, .long_logs = true}}) {
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
      Trace trace(seed, world);
      const std::string difference = trace.run(4'000);
      ASSERT_TRUE(difference.empty()) << "seed " << seed << '\n' << tail(difference);
      longest = std::max(longest, trace.longest());
    }
  }
  EXPECT_GT(longest, 600U) << "logs of several blocks";
}

TEST(Scripts, DecideAsTheModelDoesThoughKeysExpire) {
  compare_with_model({.forgets = true});
  compare_with_model({.client_clock = true, .forgets = true});
}

}  // namespace
}  // namespace weir::store::redis
