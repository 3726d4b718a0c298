#include "guard/disk_waits.h"

namespace weir::guard {
namespace {

thread_local const DiskWaits* running_here = nullptr;

}  // namespace

DiskWaits::~DiskWaits() {
  stop();
}

DiskWaits::Place DiskWaits::begin(Nanos within, std::function<void()> leave) {
  const MonoTime now = clock_ != nullptr ? clock_->mono() : std::chrono::steady_clock::now();
  const MonoTime when = now + within;
  std::unique_lock lock(mutex_);
  const Place place{when, ++next_};
  const auto at = waiting_.emplace(place, std::move(leave)).first;
  if (stopping_) return place;
  if (wake_) {
    lock.unlock();
    wake_(when);
    return place;
  }
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { run(); });
  } else if (at == waiting_.begin()) {
    changed_.notify_one();
  }
  return place;
}

bool DiskWaits::end(const Place& place) {
  std::function<void()> leave;  // ends outside of the lock
  std::lock_guard lock(mutex_);
  const auto found = waiting_.find(place);
  if (found == waiting_.end()) return false;
  leave = std::move(found->second);
  waiting_.erase(found);
  return true;
}

void DiskWaits::turn(MonoTime now) {
  std::unique_lock lock(mutex_);
  while (!stopping_ && !waiting_.empty() && waiting_.begin()->first.first <= now) {
    const std::function<void()> leave = std::move(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
    lock.unlock();
    leave();
    lock.lock();
  }
}

void DiskWaits::stop() noexcept {
  std::thread thread;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    thread.swap(thread_);
  }
  changed_.notify_all();
  if (thread.joinable()) thread.join();
}

bool DiskWaits::in_its_thread() const noexcept {
  return running_here == this;
}

std::size_t DiskWaits::size() const {
  std::lock_guard lock(mutex_);
  return waiting_.size();
}

void DiskWaits::run() {
  running_here = this;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (waiting_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const MonoTime when = waiting_.begin()->first.first;
    const MonoTime now = std::chrono::steady_clock::now();
    if (now < when) {
      changed_.wait_until(lock, when);
      continue;
    }
    lock.unlock();
    turn(now);
    lock.lock();
  }
}

}  // namespace weir::guard
