// A limit in ten lines: load a policy, ask, obey the answer.
#include <weir/weir.h>

#include <iostream>

int main() {
  auto guard = weir::Guard::open(weir::Policy::load("quickstart.yaml").value()).value();
  for (int attempt = 1; attempt <= 6; ++attempt) {
    weir::Decision d = guard.check("login", {{"ip", "192.0.2.7"}, {"user", "ada"}});
    std::cout << "attempt " << attempt << ": " << d.http_status() << '\n';
  }
}

// Prints:
// attempt 1: 200
// attempt 2: 200
// attempt 3: 200
// attempt 4: 200
// attempt 5: 200
// attempt 6: 429
