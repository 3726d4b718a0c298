#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>

#include "breaker/lease_table.h"
#include "weir/concurrency.h"

namespace weir {

// A concurrency limit's inside. Units are taken from and given back to the gate's word without a
// lock; leases and the queue of those that wait have one.
class ConcurrencyCore final : public detail::ConcurrencyGate {
 public:
  // Fences are larger than `fence`.
  ConcurrencyCore(std::string name, const ConcurrencyConfig& config, Clock& clock,
                  std::uint64_t fence = 0);

  // What try_acquire() does where the units are not simply free.
  LeaseRefusal take_slow(std::uint32_t weight) noexcept;
  LeaseRefusal wait(std::uint32_t weight, Nanos patience);
  // Gives units that came back to whoever waits.
  void hand_on() noexcept;

  LeaseAnswer lease(const LeaseRequest& request);
  LeaseAnswer renew(std::string_view id);
  bool release(std::string_view id);

  void configure(const ConcurrencyConfig& config);
  ConcurrencyConfig config() const;
  const std::string& name() const noexcept { return name_; }
  ConcurrencySnapshot snapshot();
  // As snapshot(), of what was looked at last: what has ended since is still held.
  ConcurrencySnapshot numbers() const;
  // Ends a few of the leases that are over; false: no more are.
  bool sweep() noexcept;
  // Nobody holds anything, but by leases that are over, or waits.
  bool idle() const noexcept;
  std::uint64_t fence() const;

 private:
  static constexpr std::size_t kSweep = 256;

  struct Waiter {
    std::uint32_t weight = 1;
    bool granted = false;
    std::condition_variable wake{};
  };

  LeaseRefusal refuse(LeaseRefusal why) noexcept;
  // All below: mutex_ is held.
  // Ends a few of the leases that are over; false: no more are. Of a million that end together no
  // call pays for more than it needs.
  bool sweep_locked(MonoTime now) noexcept;
  // As take(), where what is over may have to make room first.
  bool take_locked(std::uint32_t weight, MonoTime now) noexcept;
  // One that stands; what is over is not found, and ends.
  const breaker::LeaseTable::Held* find_locked(std::string_view id, MonoTime now) noexcept;
  void give_back_locked(std::uint64_t units) noexcept;
  void grant_locked() noexcept;
  void mark_queue_locked() noexcept;
  Lease seen_locked(std::string_view id, const breaker::LeaseTable::Held& held, MonoTime now) const;
  LeaseAnswer full_locked(MonoTime now) noexcept;

  const std::string name_;
  Clock& clock_;
  std::atomic<std::uint64_t> refused_{0};

  mutable std::mutex mutex_;
  ConcurrencyConfig config_;
  breaker::LeaseTable leases_;
  std::list<Waiter*> waiting_;
  std::uint64_t fence_;
  std::uint64_t given_ = 0;
  std::uint64_t expired_ = 0;
};

}  // namespace weir
