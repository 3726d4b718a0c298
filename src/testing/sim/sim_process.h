#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "testing/sim/sim_loop.h"

namespace weir::testing {

// A process in simulated time, which may be stopped as by SIGSTOP and go on later. Meanwhile the
// time passes and nothing of it happens: its timers stand, and what comes for it waits where the
// system keeps it. When it goes on, all of that happens in one instant, one after the other.
//
// Threads:     one.
class SimProcess {
 public:
  // What it turns to first: whatever has been due for longest, what came for it, as where the
  // system tells of sockets before timers, or its timers.
  enum class First : std::uint8_t { longest_due, what_came, timers };

  explicit SimProcess(SimLoop& loop) : loop_(loop) {}
  SimProcess(const SimProcess&) = delete;
  SimProcess& operator=(const SimProcess&) = delete;

  // A timer of its own. It is gone with the process.
  void at(MonoTime when, std::function<void()> what);
  void after(Nanos delay, std::function<void()> what) { at(loop_.mono() + delay, std::move(what)); }
  // Something comes for it: now, or where it is stopped, once it goes on.
  void hear(std::function<void()> what);

  // `deaf`, a fault of its own: what comes for it meanwhile is lost.
  void stop(bool deaf = false) noexcept {
    stopped_ = true;
    deaf_ = deaf;
  }
  void go_on(First first = First::longest_due);
  bool stopped() const noexcept { return stopped_; }

 private:
  struct Waiting {
    bool came = false;  // and was not its own timer
    std::function<void()> what;
  };
  void turn(bool came, std::function<void()> what);

  SimLoop& loop_;
  bool stopped_ = false;
  bool deaf_ = false;
  std::vector<Waiting> waiting_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace weir::testing
