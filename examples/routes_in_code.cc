// Routes built in code, for programs that carry their limits themselves. What is wrong with them is
// an error with every fault in its message, as with a file.
#include <weir/weir.h>

#include <iostream>

using namespace std::chrono_literals;

int main() {
  auto policy = weir::Policy::of({
      {.name = "sign-up",
       .limits = {{.requests = 2, .per = 1h, .by = {"ip"}}},
       .protects = weir::Protects::security},
      {.name = "feed",
       .limits = {{.requests = 100, .per = 1min, .by = {"account"}, .burst = 10},
                  {.requests = 5'000, .per = 24h, .by = {"account"}}},
       .protects = weir::Protects::capacity},
  });
  if (!policy) {
    std::cerr << policy.error().message << '\n';
    return 1;
  }
  auto guard = weir::Guard::open(*policy).value();

  for (int i = 0; i < 3; ++i) {
    weir::Decision d = guard.check("sign-up", {{"ip", "192.0.2.7"}});
    std::cout << "sign-up: " << to_string(d.verdict) << ", " << to_string(d.reason) << '\n';
  }
  // A call may cost more than one unit; every rule of a route must have room for all of it.
  weir::Decision d = guard.check("feed", {{"account", "42"}}, {.cost = 8});
  std::cout << "feed: " << to_string(d.verdict) << '\n';
  d = guard.check("feed", {{"account", "42"}}, {.cost = 11});
  std::cout << "feed: " << to_string(d.verdict) << ", " << to_string(d.reason) << '\n';

  auto wrong = weir::Policy::of({{.name = "feed", .limits = {{.requests = 5, .per = 1min}}}});
  std::cout << (wrong ? "accepted" : "without a failure policy a route is no route") << '\n';
}

// Prints:
// sign-up: allowed, within_limit
// sign-up: allowed, within_limit
// sign-up: limited, over_limit
// feed: allowed
// feed: limited, cost_exceeds_burst
// without a failure policy a route is no route
