#pragma once

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "base/key_digest.h"
#include "store/counter.h"

namespace weir::guard {

// What the store turns out to have charged for a call that was decided without it, and whose usage
// is still on its way to the disk. While that is not known the charge stands, in place of what is
// owed for it; where the disk does not take the usage the call is not served, and the charge goes
// back.
//
// Threads:     any.
class LateCharges {
 public:
  struct Charge {
    std::uint64_t identity = 0;
    KeyDigest digest;
    store::Finding found;  // `units` of it stand for this call
  };

  // Held by who settles a charge, from looking whether the call was withdrawn until it is kept.
  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  // Under the lock. Withdrawn: the charge is its bringer's to give back.
  bool withdrawn() const noexcept { return withdrawn_; }
  void keep(const store::Counter& counter, const store::Finding& found, std::uint64_t units) {
    Charge& charge = charges_.emplace_back(Charge{counter.identity, counter.digest, found});
    charge.found.units = units;
  }

  // The call is not served. What was kept is the caller's to give back, and owed no more.
  std::vector<Charge> withdraw() {
    const auto held = lock();
    withdrawn_ = true;
    return std::exchange(charges_, {});
  }

 private:
  std::mutex mutex_;
  bool withdrawn_ = false;
  std::vector<Charge> charges_;
};

}  // namespace weir::guard
