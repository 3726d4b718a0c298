// At most three reports at once for each account; leases for workers that may die.
#include <weir/weir.h>

#include <iostream>

using namespace std::chrono_literals;

int main() {
  auto policy = weir::Policy::parse(R"(
inputs: [account]
concurrency:
  reports: {limit: 3, by: account, lease: 30s, max_hold: 10m}
)");
  if (!policy) {
    std::cerr << policy.error().message << '\n';
    return 1;
  }
  auto guard = weir::Guard::open(*policy).value();

  {
    weir::Slot heavy = guard.acquire("reports", {{"account", "ada"}}, {.weight = 2}).value();
    weir::Slot light = guard.acquire("reports", {{"account", "ada"}}).value();
    weir::Slot late = guard.acquire("reports", {{"account", "ada"}}).value();
    std::cout << "ada: " << heavy.weight() + light.weight() << " held, then "
              << to_string(late.refusal()) << '\n';
    std::cout << "bob: " << guard.acquire("reports", {{"account", "bob"}}).value().weight() << '\n';
  }  // given back here
  weir::Slot again =
      guard.acquire("reports", {{"account", "ada"}}, {.weight = 3, .patience = 1s}).value();
  std::cout << "ada again: " << again.weight() << '\n';
  again.release();

  // For a holder elsewhere: it renews, or the lease ends by itself. Asking twice takes once.
  const weir::Descriptor ada[] = {{"account", "ada"}};
  const weir::LeaseRequest request{.id = "job-4711-attempt-1"};
  auto first = guard.lease("reports", ada, request).value();
  auto second = guard.lease("reports", ada, request).value();
  std::cout << "lease: " << (second.lease->repeated ? "the same" : "another") << ", fence "
            << (second.lease->fence == first.lease->fence ? "the same" : "another") << '\n';
  std::cout << "released: " << guard.release_lease("reports", ada, *request.id).value() << ", "
            << guard.release_lease("reports", ada, *request.id).value() << '\n';
}

// Prints:
// ada: 3 held, then full
// bob: 1
// ada again: 3
// lease: the same, fence the same
// released: 1, 0
