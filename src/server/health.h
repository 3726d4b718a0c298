#pragma once

#include <atomic>

namespace weir::server {

// What the process says of itself beyond its policy.
//
// Threads:     any.
struct Health {
  std::atomic<bool> draining{false};
};

}  // namespace weir::server
