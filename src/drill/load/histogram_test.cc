#include "drill/load/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace weir::drill {
namespace {

TEST(Histogram, IsExactForSmallNumbers) {
  Histogram histogram;
  for (int i = 1; i <= 50; ++i) histogram.add(Nanos(i));
  EXPECT_EQ(histogram.quantile(0.5), Nanos(25));
  EXPECT_EQ(histogram.quantile(1), Nanos(50));
  EXPECT_EQ(histogram.quantile(0), Nanos(1));
  EXPECT_EQ(histogram.mean(), Nanos(25));
}

TEST(Histogram, NeverTellsLessThanTheTrueQuantileAndAtMostThreePercentMore) {
  std::mt19937_64 random(7);
  std::vector<std::int64_t> all;
  Histogram histogram;
  for (int i = 0; i < 100'000; ++i) {
    const auto ns =
        static_cast<std::int64_t>(std::exp(std::uniform_real_distribution(0.0, 25.0)(random)));
    all.push_back(ns);
    histogram.add(Nanos(ns));
  }
  std::sort(all.begin(), all.end());
  for (const double part : {0.001, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto rank = static_cast<std::size_t>(std::ceil(part * static_cast<double>(all.size())));
    const double exact = static_cast<double>(all[rank - 1]);
    const double told = static_cast<double>(histogram.quantile(part).count());
    EXPECT_GE(told, exact) << part;
    EXPECT_LE(told, exact * 1.033 + 1) << part;
  }
  EXPECT_EQ(histogram.max(), Nanos(all.back()));
}

TEST(Histogram, MergesAsIfAllWereAddedToOne) {
  Histogram a;
  Histogram b;
  Histogram both;
  for (int i = 0; i < 1000; ++i) {
    (i % 3 == 0 ? a : b).add(Nanos(i * 1000));
    both.add(Nanos(i * 1000));
  }
  a.merge(b);
  EXPECT_EQ(a.count(), both.count());
  for (const double part : {0.1, 0.5, 0.99}) EXPECT_EQ(a.quantile(part), both.quantile(part));
}

TEST(Histogram, TakesAnyDuration) {
  Histogram histogram;
  histogram.add(Nanos(-5));
  histogram.add(Nanos::max());
  EXPECT_EQ(histogram.quantile(0.1), Nanos(0));
  EXPECT_EQ(histogram.max(), Nanos::max());
  EXPECT_EQ(Histogram().quantile(0.5), Nanos(0));
}

}  // namespace
}  // namespace weir::drill
