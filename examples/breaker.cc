// A flaky upstream behind a circuit breaker, on a clock that the example moves: it opens, sheds,
// probes, and lets the load back in steps.
#include <weir/weir.h>

#include <iostream>
#include <stdexcept>

using namespace std::chrono_literals;

namespace {

class MovedClock final : public weir::Clock {
 public:
  weir::Instant now() const noexcept override { return weir::Instant(time_); }
  weir::MonoTime mono() const noexcept override { return weir::MonoTime(time_); }
  void sleep_until(weir::MonoTime until) override { time_ = until.time_since_epoch(); }
  void advance(weir::Nanos by) { time_ += by; }

 private:
  weir::Nanos time_{1h};
};

struct Upstream {
  bool up = true;
  int calls = 0;
  int charge() {
    ++calls;
    if (!up) throw std::runtime_error("connection refused");
    return 200;
  }
};

}  // namespace

int main() {
  MovedClock clock;
  weir::BreakerConfig config;
  config.consecutive_failures = 5;
  config.open_wait = 2s;
  config.jitter_percent = 0;  // so that this prints the same every time; leave it alone elsewhere
  auto made = weir::Breaker::make(
      "payments", config, {.clock = &clock, .listener = [](const weir::BreakerEvent& event) {
                             std::cout << "  " << to_string(event.from) << " -> "
                                       << to_string(event.to) << " (" << to_string(event.cause)
                                       << ")\n";
                           }});
  if (!made) {
    std::cerr << made.error().message << '\n';
    return 1;
  }
  weir::Breaker payments = *made;

  Upstream upstream;
  // 100 calls a second; says how many of them reached the upstream.
  const auto second = [&] {
    const int before = upstream.calls;
    for (int i = 0; i < 100; ++i) {
      run_with_fallback(
          payments, [&] { return upstream.charge(); },
          [](const weir::Called<int>&) { return 503; });
      clock.advance(10ms);
    }
    return upstream.calls - before;
  };

  std::cout << "up: " << second() << " of 100 calls went\n";
  upstream.up = false;
  std::cout << "down\n";
  int went = second();
  std::cout << "  " << went << " of 100\n";
  went = second() + second();
  std::cout << "  " << went << " of 200\n";
  upstream.up = true;
  std::cout << "up again\n";
  for (int i = 0; i < 11; ++i) {
    went = second();
    std::cout << "  " << went << '\n';
  }
  const weir::BreakerSnapshot seen = payments.snapshot();
  std::cout << "rejected in all: " << seen.rejected << ", opened " << seen.opened << " times\n";
}

// Prints:
// up: 100 of 100 calls went
// down
//   closed -> open (consecutive_failures)
//   5 of 100
//   open -> half_open (wait_over)
//   half_open -> open (probes_failed)
//   1 of 200
// up again
//   0
//   0
//   0
//   open -> half_open (wait_over)
//   half_open -> recovering (probes_passed)
//   13
//   15
//   22
//   34
//   49
//   73
//   99
//   recovering -> closed (ramp_done)
//   100
// rejected in all: 989, opened 2 times
