#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/usage_event.h"

namespace weir::ledger {

// Encoded events in their order, in one piece of memory.
class EventBatch {
 public:
  // Errors:      as encode(); the batch is unchanged.
  Result<void> add(const UsageEvent& event) {
    auto encoded = encode(event, bytes_);
    if (encoded) ends_.push_back(bytes_.size());
    return encoded;
  }
  void add_encoded(std::string_view event) {
    bytes_.append(event);
    ends_.push_back(bytes_.size());
  }
  std::string_view operator[](std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(bytes_).substr(begin, ends_[i] - begin);
  }
  std::size_t size() const noexcept { return ends_.size(); }
  std::size_t bytes() const noexcept { return bytes_.size(); }
  bool empty() const noexcept { return ends_.empty(); }
  // Keeps the first `count`.
  void cut(std::size_t count) {
    bytes_.resize(count == 0 ? 0 : ends_[count - 1]);
    ends_.resize(count);
  }
  void clear() noexcept { cut(0); }

 private:
  std::string bytes_;
  std::vector<std::size_t> ends_;
};

}  // namespace weir::ledger
