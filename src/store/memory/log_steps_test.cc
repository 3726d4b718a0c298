#include "store/memory/log_steps.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "limit/sliding_log.h"

namespace weir::store {
namespace {

using limit::Step;

limit::Numbers log_of(std::uint64_t limit, Nanos period) {
  return limit::Numbers::make(
             {.algorithm = Algorithm::sliding_log, .limit = limit, .period = {.length = period}})
      .value();
}

// A pooled log, its steps put together as the store does.
class Pooled {
 public:
  explicit Pooled(Nanos period) : log_(pool_, node_) { node_.period_ns = period.count(); }

  Step take(const limit::Numbers& numbers, Instant now, std::uint64_t cost) {
    const Step step = peek_log(numbers, log_, now, cost);
    if (cost == 0) return step;
    if (step.outcome == limit::Outcome::allowed) {
      charge(now, static_cast<std::uint32_t>(cost));
    } else if (clock_was_set_back(log_, now)) {
      settle_log(log_, now);
    }
    return step;
  }
  Step drain(const limit::Numbers& numbers, Instant now, std::uint64_t cost) {
    const std::uint32_t left = peek_log(numbers, log_, now, 0).remaining;
    if (cost <= left || left == 0) return take(numbers, now, cost);
    charge(now, left);
    return peek_log(numbers, log_, now, cost);
  }
  Step refund(const limit::Numbers& numbers, Instant now, std::uint64_t cost, Instant receipt) {
    if (cost > 0 && refundable(numbers, log_, now, receipt) > 0) {
      refund_log(log_, now, cost, receipt);
    }
    Step step = peek_log(numbers, log_, now, 0);
    step.outcome = limit::Outcome::allowed;
    step.retry_after_ns = 0;
    return step;
  }
  // Cells in use, by taking all that are left.
  std::uint32_t cells_in_use() {
    std::vector<std::uint32_t> taken;
    while (const std::uint32_t id = pool_.take()) taken.push_back(id);
    for (const std::uint32_t id : taken) pool_.give(id);
    return kCells - static_cast<std::uint32_t>(taken.size());
  }
  PooledLog& log() { return log_; }

 private:
  static constexpr std::uint32_t kCells = 64;

  void charge(Instant now, std::uint32_t units) {
    std::uint32_t spare = pool_.take();
    ASSERT_NE(spare, 0U);
    charge_log(log_, now, units, spare);
    if (spare != 0) pool_.give(spare);
  }

  CellPool pool_ = CellPool::make(kCells).value();
  LogNode node_{};
  PooledLog log_;
};

void expect_same(const Step& pooled, const Step& plain, bool charged, const std::string& where) {
  EXPECT_EQ(pooled.outcome, plain.outcome) << where;
  EXPECT_EQ(pooled.remaining, plain.remaining) << where;
  EXPECT_EQ(pooled.retry_after_ns, plain.retry_after_ns) << where;
  EXPECT_EQ(pooled.reset_after_ns, plain.reset_after_ns) << where;
  if (charged) {
    EXPECT_EQ(pooled.receipt(), plain.receipt()) << where;
  }
}

// Everything that can happen to a log, against the plain steps on a vector.
void run_trace(unsigned seed, std::int64_t longest_step_back_ns) {
  std::mt19937_64 random(seed);
  const auto pick = [&](std::uint64_t most) { return random() % (most + 1); };
  limit::Numbers numbers = log_of(1 + pick(30), std::chrono::seconds(10));
  Pooled pooled(std::chrono::seconds(10));
  limit::LogState plain;
  Instant now{std::chrono::seconds(1'000)};
  std::vector<std::pair<Instant, std::uint64_t>> receipts;
  for (int i = 0; i < 400; ++i) {
    const std::string where = "seed " + std::to_string(seed) + ", act " + std::to_string(i);
    const std::uint64_t way = pick(9);
    if (way == 0) {
      now -= Nanos(pick(static_cast<std::uint64_t>(longest_step_back_ns)));
    } else if (way > 3) {
      now += Nanos(pick(2'000'000'000));
    }
    const std::uint64_t cost = pick(9) == 0 ? pick(40) : pick(3);
    switch (pick(7)) {
      case 0: {
        if (receipts.empty()) break;
        const auto [receipt, units] = receipts[receipts.size() - 1 - pick(receipts.size() - 1)];
        expect_same(pooled.refund(numbers, now, units, receipt),
                    limit::log_refund(numbers, plain, now, units, receipt), false, where);
        break;
      }
      case 1:
        expect_same(pooled.drain(numbers, now, cost), limit::log_drain(numbers, plain, now, cost),
                    false, where);
        break;
      case 2:
        if (pick(9) == 0) numbers = log_of(1 + pick(30), std::chrono::seconds(10));
        break;
      default: {
        const Step step = limit::log_take(numbers, plain, now, cost);
        const bool charged = step.outcome == limit::Outcome::allowed && cost > 0;
        expect_same(pooled.take(numbers, now, cost), step, charged, where);
        if (charged) receipts.emplace_back(step.receipt(), cost);
      }
    }
    ASSERT_FALSE(::testing::Test::HasFailure()) << where;
    const std::size_t entries = plain.entries.size() - plain.first;
    // An entry given back whole, or over and not yet dropped, may keep its place for a while.
    ASSERT_LE(pooled.cells_in_use(), 2 + (entries + 80) / LogCell::kEntries) << where;
  }
}

TEST(PooledLog, AnswersAsThePlainLogOverRandomTraces) {
  for (unsigned seed = 1; seed <= 300; ++seed) run_trace(seed, 900'000'000);
}

TEST(PooledLog, AnswersAsThePlainLogWhereTheClockIsSetBack) {
  for (unsigned seed = 1; seed <= 300; ++seed) run_trace(1'000 + seed, 30'000'000'000);
}

TEST(PooledLog, GivesItsCellsBackOnceAllIsOver) {
  const limit::Numbers numbers = log_of(100, std::chrono::seconds(10));
  Pooled pooled(std::chrono::seconds(10));
  Instant now{std::chrono::seconds(1'000)};
  for (int i = 0; i < 100; ++i) pooled.take(numbers, now += Nanos(1), 1);
  EXPECT_EQ(pooled.cells_in_use(), 20U);
  settle_log(pooled.log(), now + std::chrono::seconds(10));
  EXPECT_EQ(pooled.cells_in_use(), 0U);
}

TEST(PooledLog, KeepsChargesOfOneInstantInOneEntry) {
  const limit::Numbers numbers = log_of(1'000, std::chrono::seconds(10));
  Pooled pooled(std::chrono::seconds(10));
  const Instant now{std::chrono::seconds(1'000)};
  for (int i = 0; i < 1'000; ++i) pooled.take(numbers, now, 1);
  EXPECT_EQ(pooled.cells_in_use(), 1U);
  EXPECT_EQ(pooled.log().back().units, 1'000U);
}

}  // namespace
}  // namespace weir::store
