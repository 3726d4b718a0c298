#include "drill/load/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace weir::drill {

std::size_t Histogram::bucket_of(std::uint64_t ns) noexcept {
  const unsigned bits = static_cast<unsigned>(std::bit_width(ns));
  if (bits <= kSubBits + 1) return ns;  // exact below 64 ns
  const unsigned shift = bits - kSubBits - 1;
  const std::size_t bucket = (std::size_t{shift} << kSubBits) + (ns >> shift);
  return std::min(bucket, kBuckets - 1);
}

std::uint64_t Histogram::end_of(std::size_t bucket) noexcept {
  if (bucket < (std::size_t{2} << kSubBits)) return bucket;
  const std::size_t shift = (bucket >> kSubBits) - 1;
  const std::uint64_t first = (bucket & ((1U << kSubBits) - 1)) + (1U << kSubBits);
  return ((first + 1) << shift) - 1;
}

void Histogram::add(Nanos duration) noexcept {
  const Nanos kept = std::max(Nanos::zero(), duration);
  ++counts_[bucket_of(static_cast<std::uint64_t>(kept.count()))];
  ++count_;
  max_ = std::max(max_, kept);
  sum_ns_ += static_cast<long double>(kept.count());
}

void Histogram::merge(const Histogram& other) noexcept {
  for (std::size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
  sum_ns_ += other.sum_ns_;
}

Nanos Histogram::mean() const noexcept {
  if (count_ == 0) return Nanos::zero();
  return Nanos(static_cast<std::int64_t>(sum_ns_ / static_cast<long double>(count_)));
}

Nanos Histogram::quantile(double part) const noexcept {
  if (count_ == 0) return Nanos::zero();
  const auto rank = static_cast<std::uint64_t>(
      std::ceil(std::clamp(part, 0.0, 1.0) * static_cast<double>(count_)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += counts_[i];
    if (seen >= std::max<std::uint64_t>(1, rank)) {
      return std::min(max_, Nanos(static_cast<std::int64_t>(end_of(i))));
    }
  }
  return max_;
}

}  // namespace weir::drill
