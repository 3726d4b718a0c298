#pragma once

// The one suite that every store must pass: it is held against the model limiter, act by act, and
// must admit exactly what fits when many threads ask at once. A test program includes this file
// once and names its store:
//
//   INSTANTIATE_TEST_SUITE_P(Memory, StoreConformance, ::testing::Values(StoreUnderTest{...}));

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/key_digest.h"
#include "store/local_store.h"
#include "testing/model_limiter.h"

namespace weir::testing {

struct StoreUnderTest {
  std::string name;
  // A fresh store without any counter.
  std::function<std::unique_ptr<store::LocalStore>()> make;
};
inline std::ostream& operator<<(std::ostream& out, const StoreUnderTest& store) {
  return out << store.name;
}

// A rule whose limit changes on the way: its numbers, and of which policy load they are.
struct ConformanceRule {
  limit::Request request;
  limit::Numbers numbers;
  std::uint32_t generation = 1;
  std::string name;

  explicit ConformanceRule(limit::Request asked, std::string called)
      : request(asked), numbers(limit::Numbers::make(asked).value()), name(std::move(called)) {}
  void change(std::uint64_t limit, std::uint32_t load) {
    request.limit = limit;
    numbers = limit::Numbers::make(request).value();
    generation = load;
  }
};

inline std::vector<ConformanceRule> conformance_rules() {
  using namespace std::chrono_literals;
  using limit::Calendar;
  std::vector<ConformanceRule> rules;
  const auto add = [&](limit::Request request, std::string name) {
    rules.emplace_back(request, std::move(name));
  };
  add({.algorithm = Algorithm::gcra, .limit = 10, .period = {.length = 10s}}, "gcra");
  add({.algorithm = Algorithm::gcra, .limit = 60, .period = {.length = 60s}, .burst = 4}, "burst");
  add({.algorithm = Algorithm::fixed_window, .limit = 7, .period = {.length = 10s}}, "fixed");
  add({.algorithm = Algorithm::fixed_window, .limit = 9, .period = {.calendar = Calendar::day}},
      "daily");
  add({.algorithm = Algorithm::fixed_window, .limit = 9, .period = {.calendar = Calendar::month}},
      "monthly");
  add({.algorithm = Algorithm::sliding_window, .limit = 8, .period = {.length = 10s}}, "sliding");
  add({.algorithm = Algorithm::sliding_window, .limit = 3, .period = {.length = 250ms}}, "short");
  add({.algorithm = Algorithm::sliding_log, .limit = 6, .period = {.length = 10s}}, "log");
  add({.algorithm = Algorithm::sliding_log, .limit = 0, .period = {.length = 10s}}, "blocked log");
  add({.algorithm = Algorithm::gcra, .limit = 0, .period = {.length = 10s}}, "blocked");
  return rules;
}

// The store and the model, asked the same.
class ConformancePair {
 public:
  ConformancePair(std::unique_ptr<store::LocalStore> store, unsigned seed)
      : store_(std::move(store)), random_(seed), seed_(seed) {}

  std::uint64_t pick(std::uint64_t most) { return random_() % (most + 1); }
  void move_clock(Nanos by) { now_ += by; }

  // One ask of one to four counters; what the two say differently, if they do.
  std::optional<std::string> ask() {
    counters_.clear();
    keys_.clear();
    const std::uint64_t count = 1 + (pick(2) == 0 ? pick(3) : 0);
    while (counters_.size() < count) add_counter();
    std::vector<store::Finding> real(counters_.size());
    std::vector<store::Finding> model(counters_.size());
    const store::LocalAnswer said = store_->decide(counters_, now_, real);
    const store::LocalAnswer right = model_.decide(counters_, now_, model);
    ++asks_;
    for (std::size_t i = 0; i < counters_.size(); ++i) remember(counters_[i], model[i]);
    if (said.outcome != right.outcome || said.allowed != right.allowed) {
      return told(said.allowed ? "allowed" : "not allowed", right.allowed ? "allowed" : "denied");
    }
    for (std::size_t i = 0; i < counters_.size(); ++i) {
      const std::string a = text(real[i]);
      const std::string b = text(model[i]);
      if (a != b) return told("counter " + std::to_string(i) + ": " + a, b);
    }
    return std::nullopt;
  }

  // Another policy load changes one rule's limit.
  void reload() {
    ConformanceRule& rule = rules_[pick(7)];
    rule.change(1 + pick(11), ++generation_);
    for (ConformanceRule& other : rules_) other.generation = generation_;
  }

 private:
  void add_counter() {
    const auto rule = static_cast<std::size_t>(pick(rules_.size() - 1));
    const std::uint64_t value = pick(2);
    const KeyDigest digest{0x9E3779B97F4A7C15U * (rule + 1) + value, (value + 1) << 20 | rule};
    for (const store::Counter& other : counters_) {
      if (other.digest == digest) return;
    }
    store::Counter counter;
    counter.numbers = &rules_[rule].numbers;
    counter.rule = rules_[rule].name;
    counter.identity = rule;
    counter.digest = digest;
    keys_.push_back(std::to_string(rule) + ":" + std::to_string(value));
    counter.cost = pick(9) == 0 ? pick(12) : pick(3);
    counter.generation = rules_[rule].generation;
    counter.shadow = pick(9) == 0;
    switch (pick(11)) {
      case 0:
        counter.op = store::Op::drain;
        break;
      case 1:
        as_refund(counter);
        break;
      case 2:
        if (pick(3) == 0) counter.op = store::Op::reset;
        break;
      default:
        break;
    }
    counters_.push_back(counter);
    for (std::size_t i = 0; i < counters_.size(); ++i) counters_[i].key = keys_[i];
  }

  // Refunds an earlier charge of the counter, once.
  void as_refund(store::Counter& counter) {
    for (std::size_t i = charges_.size(); i > 0; --i) {
      const Charge charge = charges_[i - 1];
      if (!(charge.digest == counter.digest)) continue;
      charges_.erase(charges_.begin() + static_cast<std::ptrdiff_t>(i - 1));
      counter.op = store::Op::refund;
      counter.cost = charge.units;
      counter.receipt = charge.receipt;
      return;
    }
  }

  void remember(const store::Counter& counter, const store::Finding& finding) {
    if (finding.units > 0) {
      charges_.push_back({counter.digest, finding.units, finding.step.receipt()});
    }
  }

  static std::string text(const store::Finding& finding) {
    static constexpr std::array kOutcomes{"allowed", "limited", "never fits"};
    std::ostringstream out;
    out << kOutcomes[static_cast<std::size_t>(finding.step.outcome)] << ", remaining "
        << finding.step.remaining << ", retry after " << finding.step.retry_after_ns
        << " ns, reset after " << finding.step.reset_after_ns << " ns, charged " << finding.units
        << (finding.charged ? " (charged)" : "") << ", op " << static_cast<int>(finding.op);
    if (finding.units > 0) out << ", receipt " << finding.step.next.time_ns;
    return out.str();
  }

  std::string told(const std::string& said, const std::string& right) const {
    std::ostringstream out;
    out << "seed " << seed_ << ", ask " << asks_ << " at " << now_.time_since_epoch().count()
        << " ns:\n  the store says " << said << "\n  and right is   " << right;
    for (const store::Counter& counter : counters_) {
      out << "\n  of " << counter.rule << ", op " << static_cast<int>(counter.op) << ", cost "
          << counter.cost << (counter.shadow ? ", shadow" : "") << ", limit "
          << counter.numbers->limit;
    }
    return out.str();
  }

  struct Charge {
    KeyDigest digest;
    std::uint64_t units;
    Instant receipt;
  };

  std::unique_ptr<store::LocalStore> store_;
  ModelLimiter model_;
  std::mt19937_64 random_;
  unsigned seed_;
  std::vector<ConformanceRule> rules_ = conformance_rules();
  std::uint32_t generation_ = 1;
  Instant now_{std::chrono::seconds(1'700'000'000)};
  std::vector<store::Counter> counters_;
  std::vector<std::string> keys_;
  std::vector<Charge> charges_;
  int asks_ = 0;
};

class StoreConformance : public ::testing::TestWithParam<StoreUnderTest> {
 protected:
  static constexpr Instant kNow{std::chrono::seconds(1'700'000'001)};

  static store::Counter counter_of(const limit::Numbers& numbers, std::uint64_t key) {
    return {.numbers = &numbers,
            .rule = "rule",
            .identity = key,
            .digest = {key * 0x9E3779B97F4A7C15U, key << 32 | key},
            .key = key_text(key)};
  }
  static std::string_view key_text(std::uint64_t key) {
    static constexpr std::array<std::string_view, 10> kTexts{"k0", "k1", "k2", "k3", "k4",
                                                             "k5", "k6", "k7", "k8", "k9"};
    return kTexts[key];
  }
  // A charge of one unit, and how it ended.
  static limit::Step take(store::LocalStore& store, const ConformanceRule& rule, Instant now) {
    store::Counter counter = counter_of(rule.numbers, 1);
    counter.generation = rule.generation;
    store::Finding finding;
    EXPECT_EQ(store.decide({&counter, 1}, now, {&finding, 1}).outcome,
              store::LocalOutcome::decided);
    return finding.step;
  }
  static std::uint32_t remaining(store::LocalStore& store, store::Counter counter) {
    counter.cost = 0;
    store::Finding finding;
    (void)store.decide({&counter, 1}, kNow, {&finding, 1});
    return finding.step.remaining;
  }
  // Runs `each(thread)` in so many threads that begin together.
  static void in_threads(unsigned count, const std::function<void(unsigned)>& each) {
    std::atomic<unsigned> waiting{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < count; ++t) {
      threads.emplace_back([&, t] {
        ++waiting;
        while (waiting.load() < count) std::this_thread::yield();
        each(t);
      });
    }
    for (auto& thread : threads) thread.join();
  }
};

TEST_P(StoreConformance, AnswersAsTheModelOverRandomTraces) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    ConformancePair pair(GetParam().make(), seed);
    for (int i = 0; i < 150; ++i) {
      const std::uint64_t way = pair.pick(19);
      // Threads that read the clock at different moments disagree a little.
      if (way == 0) pair.move_clock(-Nanos(pair.pick(900'000'000)));
      if (way > 8) pair.move_clock(Nanos(pair.pick(1'500'000'000)));
      if (way == 19) pair.move_clock(Nanos(pair.pick(40'000'000'000)));
      const std::optional<std::string> difference = pair.ask();
      ASSERT_FALSE(difference.has_value()) << *difference;
    }
  }
}

TEST_P(StoreConformance, AnswersAsTheModelWhileLimitsChange) {
  for (unsigned seed = 1'001; seed <= 1'060; ++seed) {
    ConformancePair pair(GetParam().make(), seed);
    for (int i = 0; i < 150; ++i) {
      if (pair.pick(9) == 0) pair.reload();
      pair.move_clock(Nanos(pair.pick(1'000'000'000)));
      const std::optional<std::string> difference = pair.ask();
      ASSERT_FALSE(difference.has_value()) << *difference;
    }
  }
}

// Nothing expires before the clock is set back: what a store has rightly forgotten by then, it need
// not remember again.
TEST_P(StoreConformance, AnswersAsTheModelWhereTheClockIsSetBack) {
  for (unsigned seed = 2'001; seed <= 2'060; ++seed) {
    ConformancePair pair(GetParam().make(), seed);
    for (int step = 0; step < 3; ++step) {
      for (int i = 0; i < 30; ++i) {
        pair.move_clock(Nanos(pair.pick(1'000'000)));
        const std::optional<std::string> difference = pair.ask();
        ASSERT_FALSE(difference.has_value()) << *difference;
      }
      pair.move_clock(-Nanos(1'100'000'000 + pair.pick(3'600'000'000'000)));
    }
  }
}

// A counter whose limit was changed and whose store's clock was set back, at once, was denied until
// the clock had caught up with what it was charged by: a day, where it was set back by a day.
TEST_P(StoreConformance, IsNotLockedByAClockThatIsSetBackWhileTheLimitChanges) {
  using namespace std::chrono_literals;
  for (const std::uint64_t limit : {2U, 5U, 30U}) {
    for (ConformanceRule rule : conformance_rules()) {
      if (rule.numbers.limit == 0) continue;
      SCOPED_TRACE(rule.name + " becomes " + std::to_string(limit));
      auto store = GetParam().make();
      while (take(*store, rule, kNow).outcome == limit::Outcome::allowed) continue;
      rule.request.burst.reset();
      rule.change(limit, 2);
      // Into the middle of a month, so that nothing is over for another reason.
      Instant now = kNow - 24h;
      limit::Step step = take(*store, rule, now);
      for (int i = 0; i < 3 && step.outcome != limit::Outcome::allowed; ++i) {
        ASSERT_EQ(step.outcome, limit::Outcome::limited);
        ASSERT_GT(step.retry_after_ns, 0);
        ASSERT_LE(step.retry_after_ns, 2 * rule.numbers.period_ns);
        now += Nanos(step.retry_after_ns);
        step = take(*store, rule, now);
      }
      EXPECT_EQ(step.outcome, limit::Outcome::allowed) << "after the waits that were told";
    }
  }
}

// Retry-After is true: who waits so long is admitted. A key whose limit was lowered drained by the
// old limit for as long as it was denied, and was told the wait of the new one each time.
TEST_P(StoreConformance, AdmitsWhoWaitedAsTheFirstDenialUnderNewNumbersSaid) {
  for (const std::uint64_t limit : {1U, 3U, 6U}) {
    for (ConformanceRule rule : conformance_rules()) {
      if (rule.numbers.limit == 0) continue;
      SCOPED_TRACE(rule.name + " becomes " + std::to_string(limit));
      auto store = GetParam().make();
      while (take(*store, rule, kNow).outcome == limit::Outcome::allowed) continue;
      rule.request.burst.reset();
      rule.change(limit, 2);
      const limit::Step denied = take(*store, rule, kNow);
      if (denied.outcome == limit::Outcome::allowed) continue;  // it was raised
      ASSERT_GT(denied.retry_after_ns, 0);
      const Nanos wait{denied.retry_after_ns};
      EXPECT_EQ(take(*store, rule, kNow + wait / 2).outcome, limit::Outcome::limited);
      EXPECT_EQ(take(*store, rule, kNow + wait - Nanos(1)).retry_after_ns, 1);
      EXPECT_EQ(take(*store, rule, kNow + wait).outcome, limit::Outcome::allowed);
    }
  }
}

TEST_P(StoreConformance, AdmitsExactlyTheLimitToFiftyThreads) {
  for (const ConformanceRule& rule : conformance_rules()) {
    auto store = GetParam().make();
    std::atomic<std::uint64_t> admitted{0};
    in_threads(50, [&](unsigned) {
      for (int i = 0; i < 10; ++i) {
        const store::Counter counter = counter_of(rule.numbers, 1);
        store::Finding finding;
        if (store->decide({&counter, 1}, kNow, {&finding, 1}).allowed) ++admitted;
      }
    });
    EXPECT_EQ(admitted.load(), rule.numbers.burst) << rule.name;
    EXPECT_EQ(remaining(*store, counter_of(rule.numbers, 1)), 0U) << rule.name;
  }
}

TEST_P(StoreConformance, ChargesNoneOfTheRulesWhereOneDeniesToFiftyThreads) {
  for (const ConformanceRule& rule : conformance_rules()) {
    if (rule.numbers.limit == 0) continue;
    auto store = GetParam().make();
    ConformanceRule wide = rule;
    ConformanceRule narrow = rule;
    wide.request.burst.reset();
    narrow.request.burst.reset();
    wide.change(10, 1);
    narrow.change(3, 1);
    std::atomic<int> admitted{0};
    in_threads(50, [&](unsigned t) {
      // Half of the threads name them the other way around.
      std::array counters{counter_of(wide.numbers, 1), counter_of(narrow.numbers, 2)};
      if (t % 2 == 1) std::swap(counters[0], counters[1]);
      std::array<store::Finding, 2> findings;
      for (int i = 0; i < 10; ++i) {
        if (store->decide(counters, kNow, findings).allowed) ++admitted;
      }
    });
    EXPECT_EQ(admitted.load(), 3) << rule.name;
    EXPECT_EQ(remaining(*store, counter_of(wide.numbers, 1)), 7U) << rule.name;
    EXPECT_EQ(remaining(*store, counter_of(narrow.numbers, 2)), 0U) << rule.name;
  }
}

TEST_P(StoreConformance, ChargesAllRulesOfAnAskOrNoneAmongManyThreads) {
  auto store = GetParam().make();
  std::vector<ConformanceRule> rules = conformance_rules();
  rules.erase(rules.begin() + 8, rules.end());  // those that block
  std::uint64_t limit = 400;
  for (ConformanceRule& rule : rules) {
    rule.request.burst.reset();
    rule.change(limit += 50, 1);
  }
  std::array<std::atomic<std::uint64_t>, 8> charged{};
  in_threads(8, [&](unsigned t) {
    std::mt19937_64 random(t + 1);
    for (int i = 0; i < 1'000; ++i) {
      std::array<std::size_t, 8> order{0, 1, 2, 3, 4, 5, 6, 7};
      std::shuffle(order.begin(), order.end(), random);
      const std::size_t count = 1 + random() % 4;
      std::vector<store::Counter> counters;
      for (std::size_t k = 0; k < count; ++k) {
        counters.push_back(counter_of(rules[order[k]].numbers, order[k]));
      }
      std::array<store::Finding, 8> findings;
      const auto answer = store->decide(counters, kNow, std::span(findings).first(count));
      for (std::size_t k = 0; answer.allowed && k < count; ++k) ++charged[order[k]];
    }
  });
  for (std::size_t i = 0; i < rules.size(); ++i) {
    EXPECT_LE(charged[i].load(), rules[i].numbers.limit) << rules[i].name;
    EXPECT_EQ(charged[i].load() + remaining(*store, counter_of(rules[i].numbers, i)),
              rules[i].numbers.limit)
        << rules[i].name;
  }
}

}  // namespace weir::testing
