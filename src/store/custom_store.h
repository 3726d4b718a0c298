#pragma once

#include <memory>

#include "store/local_store.h"
#include "weir/store.h"

namespace weir::store {

// Asks a store of the caller's own.
//
// Guarantees:  asks for takes and probes alone, the only thing such a store knows; refunds and
// resets are answered
//              `unavailable`. What it says is believed, except that an answer which fits in every
//              part is the only one that allows.
class CustomStore final : public LocalStore {
 public:
  explicit CustomStore(std::unique_ptr<Store> store) : store_(std::move(store)) {}

  LocalAnswer decide(std::span<const Counter> counters, Instant now,
                     std::span<Finding> findings) noexcept override;
  std::uint64_t keys() const noexcept override { return 0; }

 private:
  std::unique_ptr<Store> store_;
};

}  // namespace weir::store
