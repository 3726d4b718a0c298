// A store of one's own: counters live where the program says. This one keeps plain totals in a map
// and, like any store, may be unable to answer; then each route's failure policy decides.
#include <weir/weir.h>

#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <string>

using namespace std::chrono_literals;

namespace {

class Totals final : public weir::Store {
 public:
  explicit Totals(const bool& reachable) : reachable_(reachable) {}

  bool decide(std::span<const weir::CounterRequest> counters, weir::Instant,
              std::span<weir::CounterAnswer> answers) noexcept override {
    if (!reachable_) return false;
    const std::lock_guard lock(mutex_);
    // One step over all counters: where one does not fit, none is charged.
    bool all_fit = true;
    for (std::size_t i = 0; i < counters.size(); ++i) {
      const std::uint64_t used = used_[std::string(counters[i].key)];
      answers[i].fits = used + counters[i].cost <= counters[i].limit;
      answers[i].remaining = counters[i].limit - used;
      all_fit = all_fit && answers[i].fits;
    }
    if (!all_fit) return true;
    for (std::size_t i = 0; i < counters.size(); ++i) {
      used_[std::string(counters[i].key)] += counters[i].cost;
      *answers[i].remaining -= counters[i].cost;
    }
    return true;
  }

 private:
  const bool& reachable_;
  std::mutex mutex_;
  std::map<std::string, std::uint64_t> used_;
};

}  // namespace

int main() {
  bool reachable = true;
  auto policy = weir::Policy::of({
      {.name = "login",
       .limits = {{.requests = 1, .per = 1min, .by = {"ip"}}},
       .protects = weir::Protects::security},
      {.name = "status",
       .limits = {{.requests = 1, .per = 1min, .by = {"ip"}}},
       .protects = weir::Protects::nothing},
  });
  auto guard =
      weir::Guard::open(policy.value(), {.store = std::make_unique<Totals>(reachable)}).value();

  const auto show = [&](const char* when, const char* route) {
    weir::Decision d = guard.check(route, {{"ip", "192.0.2.7"}});
    std::cout << when << ' ' << route << ": " << to_string(d.verdict) << ", " << to_string(d.reason)
              << ", " << d.http_status() << '\n';
  };
  show("up", "login");
  show("up", "login");
  reachable = false;
  show("away", "login");
  show("away", "status");
}

// Prints:
// up login: allowed, within_limit, 200
// up login: limited, over_limit, 429
// away login: refused, store_unavailable, 503
// away status: allowed, store_unavailable, 200
