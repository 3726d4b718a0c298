#include "testing/sim/sim_loop.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace weir::testing {

void SimLoop::sleep_until(MonoTime) {
  std::fprintf(stderr, "somebody sleeps in simulated time\n");
  std::abort();
}

void SimLoop::at(MonoTime when, std::function<void()> what) {
  heap_.push_back({std::max(when, mono_), ++asked_for_, std::move(what)});
  std::push_heap(heap_.begin(), heap_.end());
}

void SimLoop::run_until(MonoTime until) {
  while (!heap_.empty() && heap_.front().when <= until) {
    std::pop_heap(heap_.begin(), heap_.end());
    const Event event = std::move(heap_.back());
    heap_.pop_back();
    mono_ = event.when;
    ++events_;
    event.what();
  }
  mono_ = std::max(mono_, until);
}

}  // namespace weir::testing
