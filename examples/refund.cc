// Giving back what was not used: charge before the work, refund when it was not done.
#include <weir/weir.h>

#include <iostream>

using namespace std::chrono_literals;

namespace {

bool send_message(bool reachable) {
  return reachable;
}

}  // namespace

int main() {
  auto policy = weir::Policy::of({{.name = "sms",
                                   .limits = {{.requests = 2, .per = 1h, .by = {"account"}}},
                                   .protects = weir::Protects::side_effects}});
  auto guard = weir::Guard::open(policy.value()).value();

  for (bool reachable : {true, false, true, true}) {
    weir::Decision d = guard.check("sms", {{"account", "42"}});
    if (!d.allowed()) {
      std::cout << "limited\n";
    } else if (send_message(reachable)) {
      std::cout << "sent\n";
    } else {
      // The decision is the receipt: it knows which counters it charged.
      std::cout << "not sent, " << (guard.refund(d) ? "unit given back" : "nothing to give back")
                << '\n';
    }
  }
  // What is left, without charging anything.
  weir::Decision left = guard.peek("sms", {{"account", "42"}});
  std::cout << "remaining: " << left.rules().front().remaining.value() << '\n';
}

// Prints:
// sent
// not sent, unit given back
// sent
// limited
// remaining: 0
