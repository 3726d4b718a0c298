#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "weir/clock.h"

namespace weir::guard {

// How long a caller that named no deadline waits for the disk: whatever takes longer counts as
// hanging.
inline constexpr Nanos kDiskHangs = std::chrono::seconds(1);

// Callers that wait for the disk and have no thread to wait in: each leaves by its time, whatever
// the disk does.
//
// Bounds:      as many as wait: the journal takes no more than it has room for.
// Threads:     any. The first to wait starts a thread, in which callers leave; unless it is driven.
class DiskWaits {
 public:
  // Names one that waits.
  using Place = std::pair<MonoTime, std::uint64_t>;

  // Waits by the system's clock, whatever clock decides: a disk does not know of another one.
  DiskWaits() = default;
  // Driven, where there is a `wake`: it has no thread, and `wake` hears when turn() is due by
  // `clock`.
  DiskWaits(Clock& clock, std::function<void(MonoTime)> wake)
      : clock_(wake ? &clock : nullptr), wake_(std::move(wake)) {}
  ~DiskWaits();
  DiskWaits(const DiskWaits&) = delete;
  DiskWaits& operator=(const DiskWaits&) = delete;

  // Calls `leave` after so long, or soon after, unless end() comes before. After stop() never.
  Place begin(Nanos within, std::function<void()> leave);
  // What it waited for has come. False: it has left, or is leaving.
  bool end(const Place& place);
  // Those leave whose time has come.
  void turn(MonoTime now);
  // Returns once no `leave` is under way.
  void stop() noexcept;

  bool in_its_thread() const noexcept;
  std::size_t size() const;

 private:
  void run();

  Clock* const clock_ = nullptr;
  const std::function<void(MonoTime)> wake_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Place, std::function<void()>> waiting_;
  std::uint64_t next_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace weir::guard
