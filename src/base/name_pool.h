#pragma once

#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace weir {

// Keeps one copy of every name it was ever given, so that views of them outlive the policy they
// came from. Names come from configuration only, and equal ones share a copy: reloading a policy
// adds nothing.
//
// Threads:     any.
class NamePool {
 public:
  std::string_view keep(std::string_view name) {
    std::lock_guard lock(mutex_);
    auto found = names_.find(name);
    if (found == names_.end()) found = names_.emplace(name).first;
    return *found;
  }

 private:
  std::mutex mutex_;
  std::set<std::string, std::less<>> names_;  // nodes never move
};

}  // namespace weir
