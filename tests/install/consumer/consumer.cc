// A user's program, built against the installed library alone: it touches every folder behind it.
#include <weir/weir.h>

#include <iostream>

int main() {
  auto policy = weir::Policy::parse(
      "routes:\n"
      "  login:\n"
      "    limits: [2 per minute by ip]\n"
      "    protects: security\n");
  if (!policy) return std::cerr << policy.error().message << '\n', 1;
  auto guard = weir::Guard::open(*policy);
  if (!guard) return std::cerr << guard.error().message << '\n', 1;
  for (int i = 0; i < 3; ++i) {
    weir::Decision d = guard->check("login", {{"ip", "192.0.2.7"}});
    std::cout << d.http_status() << ' ' << d.json() << '\n';
  }
  std::cout << "weir " << weir::kVersion << '\n';
}
