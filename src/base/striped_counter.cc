#include "base/striped_counter.h"

#include <bit>
#include <mutex>

namespace weir::detail {

constinit thread_local std::uint32_t counter_stripe = kNoStripe;

namespace {

static_assert(kOwnedStripes == 32, "one bit a stripe");

// Constant-initialised and trivially destroyed, so threads that outlive main() may still use them.
constinit std::mutex claims;
constinit std::uint32_t taken = 0;

// Gives the thread's stripe back when the thread ends. What the thread still counts after that, in
// later destructors, goes to the shared stripe.
struct Claim {
  ~Claim() {
    const std::uint32_t mine = counter_stripe;
    counter_stripe = kOwnedStripes;
    if (mine >= kOwnedStripes) return;
    std::lock_guard lock(claims);
    taken &= ~(std::uint32_t{1} << mine);
  }
};

}  // namespace

std::uint32_t claim_counter_stripe() noexcept {
  thread_local Claim claim;
  (void)claim;
  std::lock_guard lock(claims);
  const auto free = static_cast<std::uint32_t>(std::countr_one(taken));
  if (free < kOwnedStripes) taken |= std::uint32_t{1} << free;
  counter_stripe = free;  // all taken: countr_one is kOwnedStripes, the shared one
  return free;
}

}  // namespace weir::detail
