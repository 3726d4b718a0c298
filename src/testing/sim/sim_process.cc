#include "testing/sim/sim_process.h"

#include <algorithm>
#include <utility>

namespace weir::testing {

void SimProcess::at(MonoTime when, std::function<void()> what) {
  loop_.at(when, [this, what = std::move(what), alive = std::weak_ptr(alive_)]() mutable {
    if (!alive.expired()) turn(false, std::move(what));
  });
}

void SimProcess::hear(std::function<void()> what) {
  turn(true, std::move(what));
}

// What it does may end the process: nothing of it is touched after that.
void SimProcess::turn(bool came, std::function<void()> what) {
  if (stopped_) {
    if (came && deaf_) return;
    waiting_.push_back({came, std::move(what)});
  } else {
    what();
  }
}

void SimProcess::go_on(First first) {
  stopped_ = false;
  std::vector<Waiting> waiting = std::exchange(waiting_, {});
  if (first != First::longest_due) {
    std::stable_partition(waiting.begin(), waiting.end(), [first](const Waiting& each) {
      return each.came == (first == First::what_came);
    });
  }
  for (Waiting& each : waiting) {
    loop_.at(loop_.mono(), [this, each = std::move(each), alive = std::weak_ptr(alive_)]() mutable {
      if (!alive.expired()) turn(each.came, std::move(each.what));
    });
  }
}

}  // namespace weir::testing
