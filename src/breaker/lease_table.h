#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "weir/clock.h"

namespace weir::breaker {

// The leases that stand, by id and by when they end.
//
// Cost:        sweep() is proportional to what has ended, not to what stands.
// Threads:     one at a time.
class LeaseTable {
 public:
  struct Held {
    std::uint64_t fence = 0;
    std::uint32_t weight = 1;
    MonoTime since{};
    MonoTime ends{};
  };

  const Held* find(std::string_view id) const;
  // Requires: no lease has this id.
  void add(std::string_view id, const Held& held);
  void extend(std::string_view id, MonoTime ends);
  // The units that come free; 0: no such lease.
  std::uint32_t remove(std::string_view id);
  struct Swept {
    std::uint64_t leases = 0;
    std::uint64_t units = 0;
  };
  // Ends leases whose time is over at `now`, at most so many of them, those that ended first first.
  Swept sweep(MonoTime now, std::size_t most);

  std::optional<MonoTime> next_end() const;
  std::optional<MonoTime> last_end() const;
  // That all of them hold, those that are over and not yet swept too.
  std::uint64_t units() const noexcept { return units_; }
  std::size_t size() const noexcept { return leases_.size(); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view id) const noexcept {
      return std::hash<std::string_view>{}(id);
    }
  };
  std::unordered_map<std::string, Held, Hash, std::equal_to<>> leases_;
  std::set<std::pair<MonoTime, std::string_view>> ends_;  // views of the map's keys, which stay put
  std::uint64_t units_ = 0;
};

}  // namespace weir::breaker
