#pragma once

#include <memory>
#include <utility>

#include "store/local_store.h"
#include "weir/store.h"

namespace weir::store {

// Asks a store of the caller's own (weir/store.h) in the terms of LocalStore.
//
// What that store can be asked is less than what a LocalStore is asked:
//   take            all takes of an ask that may deny, in one call; probes among them with cost 0
//   shadow, drain   each in a call of its own, after the ask was allowed; its answer denies nothing
//   refund, reset   cannot be said to it: nothing is charged back, and the finding says allowed
// Where the store cannot decide its takes, the answer is `unavailable`, and nothing else is asked.
//
// Threads:     as the store's.
class CustomStore final : public LocalStore {
 public:
  // Requires: store is not null.
  explicit CustomStore(std::unique_ptr<Store> store) : store_(std::move(store)) {}

  LocalAnswer decide(std::span<const Counter> counters, Instant now,
                     std::span<Finding> findings) noexcept override;
  // What it keeps is its own matter: 0.
  std::uint64_t keys() const noexcept override { return 0; }

 private:
  Finding ask_aside(const Counter& counter, Instant now, bool charge) noexcept;

  std::unique_ptr<Store> store_;
};

}  // namespace weir::store
