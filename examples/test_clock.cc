// Testing code that is limited, without sleeping: hand the Guard a Clock that stands still until
// told otherwise.
#include <weir/weir.h>

#include <iostream>

using namespace std::chrono_literals;

namespace {

class StoppedClock final : public weir::Clock {
 public:
  weir::Instant now() const noexcept override { return weir::Instant{wall_}; }
  weir::MonoTime mono() const noexcept override { return weir::MonoTime{wall_}; }
  void sleep_until(weir::MonoTime until) override {
    if (until > mono()) wall_ = until.time_since_epoch();  // nobody waits for real
  }
  void advance(weir::Nanos by) { wall_ += by; }

 private:
  weir::Nanos wall_ = 24h * 365 * 50;
};

}  // namespace

int main() {
  StoppedClock clock;
  auto policy = weir::Policy::of({{.name = "report",
                                   .limits = {{.requests = 1, .per = 1h, .by = {"account"}}},
                                   .protects = weir::Protects::capacity}});
  auto guard = weir::Guard::open(policy.value(), {.clock = &clock}).value();

  const auto ask = [&] { return guard.check("report", {{"account", "42"}}); };
  std::cout << "first: " << to_string(ask().verdict) << '\n';
  weir::Decision limited = ask();
  std::cout << "second: " << to_string(limited.verdict) << ", again in "
            << limited.retry_after.value() / 1min << " minutes\n";
  // retry_after is true to the nanosecond: one before it, no; at it, yes.
  clock.advance(*limited.retry_after - 1ns);
  std::cout << "a nanosecond early: " << to_string(ask().verdict) << '\n';
  clock.advance(1ns);
  std::cout << "on time: " << to_string(ask().verdict) << '\n';
  // Waiting is as quick as moving the clock.
  std::cout << "waited: " << to_string(guard.wait("report", {{"account", "42"}}, 2h).verdict)
            << '\n';
}

// Prints:
// first: allowed
// second: limited, again in 60 minutes
// a nanosecond early: limited
// on time: allowed
// waited: allowed
