#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "testing/patience.h"

namespace weir::testing {

// Waits for what other threads and processes bring about. False: it did not come in time.
inline bool until(const std::function<bool()>& done, std::chrono::seconds within = kPatience) {
  const auto end = std::chrono::steady_clock::now() + within;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace weir::testing
