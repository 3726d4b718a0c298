// A client that paces itself: wait() returns when the cost fits, or at once where waiting is
// useless.
#include <weir/weir.h>

#include <iostream>

using namespace std::chrono_literals;

int main() {
  auto policy = weir::Policy::of({{.name = "upstream",
                                   .limits = {{.requests = 50, .per = 1s, .burst = 1}},
                                   .protects = weir::Protects::capacity}});
  auto guard = weir::Guard::open(policy.value()).value();

  const weir::MonoTime start = weir::Clock::real().mono();
  for (int call = 0; call < 5; ++call) {
    weir::Decision d = guard.wait("upstream", {}, 2s);
    if (!d.allowed()) return 1;
  }
  // The first call goes at once, the other four 20 ms apart.
  const weir::Nanos taken = weir::Clock::real().mono() - start;
  std::cout << "five calls took " << (taken >= 75ms ? "at least 75 ms" : "too little time") << '\n';

  // Patience shorter than the wait: the answer is there at once, and says how long it would take.
  weir::Decision hasty = guard.wait("upstream", {}, 1us);
  std::cout << "hasty: " << to_string(hasty.verdict) << '\n';
  // A cost that can never fit is not waited for, whatever the patience.
  weir::Decision huge = guard.wait("upstream", {}, 1h, {.cost = 2});
  std::cout << "huge: " << to_string(huge.reason) << '\n';
}

// Prints:
// five calls took at least 75 ms
// hasty: limited
// huge: cost_exceeds_burst
