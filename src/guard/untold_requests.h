#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "guard/idempotency_table.h"
#include "guard/request_name.h"

namespace weir::guard {

// Names of requests that were admitted without the store, in the order in which they came, until
// it has been told of them.
//
// Bounds:      kMost of them, and kMostBytes with what they hold, which is some 57,000 of those
//              with the longest values: those that came first are dropped first.
// Threads:     one at a time.
class UntoldRequests {
 public:
  static constexpr std::size_t kMost = IdempotencyTable::kMost;
  static constexpr std::size_t kMostBytes = std::size_t{32} << 20;

  void keep(RequestName request) {
    bytes_ += bytes_of(request);
    requests_.push_back(std::move(request));
    while (requests_.size() > kMost || bytes_ > kMostBytes) (void)take_first();
  }
  // The first of them, in their order.
  std::vector<RequestName> take(std::size_t most) {
    std::vector<RequestName> out;
    out.reserve(std::min(most, requests_.size()));
    while (out.size() < most && !requests_.empty()) out.push_back(take_first());
    return out;
  }
  std::size_t size() const noexcept { return requests_.size(); }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  static std::size_t bytes_of(const RequestName& request) noexcept {
    return sizeof(RequestName) + request.place.size();
  }
  RequestName take_first() {
    bytes_ -= bytes_of(requests_.front());
    RequestName first = std::move(requests_.front());
    requests_.pop_front();
    return first;
  }

  std::deque<RequestName> requests_;
  std::size_t bytes_ = 0;
};

}  // namespace weir::guard
