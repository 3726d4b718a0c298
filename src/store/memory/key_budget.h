#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace weir::store {

// How many keys are kept, against the most there may be. Exact: never more than `most`.
class KeyBudget {
 public:
  explicit KeyBudget(std::uint64_t most) : most_(static_cast<std::int64_t>(most)) {}

  bool take() noexcept {
    if (kept_.fetch_add(1, std::memory_order_relaxed) < most_) return true;
    kept_.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }
  void give(std::int64_t keys = 1) noexcept { kept_.fetch_sub(keys, std::memory_order_relaxed); }

  std::uint64_t kept() const noexcept {
    return static_cast<std::uint64_t>(
        std::clamp<std::int64_t>(kept_.load(std::memory_order_relaxed), 0, most_));
  }

 private:
  const std::int64_t most_;
  alignas(64) std::atomic<std::int64_t> kept_{0};
};

}  // namespace weir::store
