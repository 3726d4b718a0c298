#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "weir/clock.h"

namespace weir::drill {

// Durations, kept to about three percent: 32 buckets for each doubling, from 1 ns to 2 hours.
class Histogram {
 public:
  Histogram() : counts_(kBuckets) {}

  void add(Nanos duration) noexcept;
  void merge(const Histogram& other) noexcept;

  std::uint64_t count() const noexcept { return count_; }
  Nanos max() const noexcept { return max_; }
  Nanos mean() const noexcept;
  // The duration that `part` of all stay within, rounded up to its bucket's end; part from 0 to 1.
  Nanos quantile(double part) const noexcept;

 private:
  static constexpr unsigned kSubBits = 5;
  static constexpr std::size_t kBuckets = (43 - kSubBits + 1) << kSubBits;

  static std::size_t bucket_of(std::uint64_t ns) noexcept;
  static std::uint64_t end_of(std::size_t bucket) noexcept;

  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  Nanos max_{0};
  long double sum_ns_ = 0;
};

}  // namespace weir::drill
