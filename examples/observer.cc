// Hearing every decision: for one's own metrics, audit lines or tests. It runs in the caller's
// thread, after the decision and outside every lock, so it must be quick.
#include <weir/weir.h>

#include <array>
#include <atomic>
#include <iostream>

using namespace std::chrono_literals;

namespace {

class Counts final : public weir::Observer {
 public:
  void on_decision(const weir::Decision& decision) override {
    by_verdict_[static_cast<std::size_t>(decision.verdict)].fetch_add(1, std::memory_order_relaxed);
  }
  void on_policy_loaded(std::uint64_t generation) override {
    std::cout << "policy " << generation << " loaded\n";
  }
  int of(weir::Verdict verdict) const { return by_verdict_[static_cast<std::size_t>(verdict)]; }

 private:
  std::array<std::atomic<int>, 3> by_verdict_{};
};

weir::Policy searches_per_minute(std::uint64_t requests) {
  return weir::Policy::of({{.name = "search",
                            .limits = {{.requests = requests, .per = 1min, .name = "searches"}},
                            .protects = weir::Protects::capacity}})
      .value();
}

}  // namespace

int main() {
  Counts counts;
  auto guard = weir::Guard::open(searches_per_minute(3), {.observer = &counts}).value();
  for (int i = 0; i < 5; ++i) (void)guard.check("search", {});
  std::cout << counts.of(weir::Verdict::allowed) << " allowed, "
            << counts.of(weir::Verdict::limited) << " limited\n";

  // A new policy takes over between two calls; what was used stays used.
  if (!guard.reload(searches_per_minute(4))) return 1;
  for (int i = 0; i < 5; ++i) (void)guard.check("search", {});
  std::cout << counts.of(weir::Verdict::allowed) << " allowed, "
            << counts.of(weir::Verdict::limited) << " limited\n";
}

// Prints:
// 3 allowed, 2 limited
// policy 2 loaded
// 4 allowed, 6 limited
