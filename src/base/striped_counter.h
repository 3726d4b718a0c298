#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weir {

// Stripes that one thread has to itself while it lives, and after them one that the rest share.
inline constexpr std::size_t kOwnedStripes = 32;
inline constexpr std::size_t kCounterStripes = kOwnedStripes + 1;

namespace detail {
inline constexpr std::uint32_t kNoStripe = 0xffff'ffff;
extern constinit thread_local std::uint32_t counter_stripe;
std::uint32_t claim_counter_stripe() noexcept;
}  // namespace detail

// The stripe this thread counts in, below kCounterStripes.
//
// Guarantees:  a stripe below kOwnedStripes belongs to no other living thread; a thread that ends
//              leaves it to the next one, which sees all that was counted there.
// Cost:        a thread's first call takes a lock.
inline std::size_t counter_stripe() noexcept {
  const std::uint32_t mine = detail::counter_stripe;
  return mine != detail::kNoStripe ? mine : detail::claim_counter_stripe();
}

// Adds to a cell of `stripe`, which is counter_stripe(). Owned cells need no locked instruction.
inline void add_to_stripe(std::atomic<std::uint64_t>& cell, std::size_t stripe,
                          std::uint64_t units) noexcept {
  if (stripe < kOwnedStripes) [[likely]] {
    cell.store(cell.load(std::memory_order_relaxed) + units, std::memory_order_relaxed);
  } else {
    cell.fetch_add(units, std::memory_order_relaxed);
  }
}

// A counter that threads add to without contending, summed by whoever reads it.
//
// Guarantees:  nothing is lost; sum() never goes down; it holds every add() that happened before.
// Threads:     any.
class StripedCounter {
 public:
  void add(std::uint64_t units = 1) noexcept {
    const std::size_t stripe = counter_stripe();
    add_to_stripe(stripes_[stripe].cell, stripe, units);
  }

  std::uint64_t sum() const noexcept {
    std::uint64_t total = 0;
    for (const Stripe& stripe : stripes_) total += stripe.cell.load(std::memory_order_relaxed);
    return total;
  }

 private:
  struct alignas(64) Stripe {
    std::atomic<std::uint64_t> cell{0};
  };
  std::array<Stripe, kCounterStripes> stripes_;
};

}  // namespace weir
