// A circuit breaker's and a concurrency limit's costs on the way of a call, beside the machine's
// own floors in the same run: one clock read, one locked addition, an uncontended mutex.
//
//   breaker_bench [--quick]
//
// A breaker that a fleet shares has its rows beside the local one's: its carrier, which hands what
// it says to a store, is one that counts what it is handed.
//
// Every figure is the least of several rounds in which all take turns, in nanoseconds of processor
// time an operation and thread.

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "breaker/breaker_core.h"
#include "breaker/fleet_carrier.h"
#include "testing/allocations.h"
#include "weir/breaker.h"
#include "weir/concurrency.h"

namespace {

using weir::testing::allocations;

using namespace std::chrono_literals;
using weir::Breaker;
using weir::BreakerConfig;
using weir::MonoTime;
using weir::Outcome;

// Keeps a value, and what it points to, from being optimised away.
template <class T>
void keep(T& value) {
  asm volatile("" : "+m,r"(value) : : "memory");
}

struct Contestant {
  std::string name;
  double goal;  // 0: none
  std::function<void(std::uint64_t)> work;
  int threads = 1;
  double best = 1e9;
  std::uint64_t allocated = 0;
};

double cpu_now() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

double nanoseconds(Contestant& contestant, std::uint64_t rounds) {
  std::barrier gate(contestant.threads);
  std::atomic<std::uint64_t> total{0};
  std::atomic<std::uint64_t> allocated{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < contestant.threads; ++t)
    threads.emplace_back([&] {
      contestant.work(1'000);  // claims this thread's stripe, and warms up
      gate.arrive_and_wait();
      const std::uint64_t before = allocations();
      const double start = cpu_now();
      contestant.work(rounds);
      total += static_cast<std::uint64_t>(cpu_now() - start);
      allocated += allocations() - before;
    });
  for (std::thread& thread : threads) thread.join();
  contestant.allocated += allocated;
  return static_cast<double>(total) / static_cast<double>(rounds) / contestant.threads;
}

Breaker make(BreakerConfig config) {
  return Breaker::make("upstream", config).value();
}

BreakerConfig last_calls() {
  BreakerConfig config;
  config.window = weir::LastCalls{100};
  return config;
}

BreakerConfig measured() {
  BreakerConfig config = last_calls();
  config.slow_percent = 50;
  config.slow_call = 1s;
  return config;
}

// The way to a store that answers; counts how often a breaker has something to say.
class CountingCarrier final : public weir::breaker::FleetCarrier {
 public:
  void poke() noexcept override { pokes.fetch_add(1, std::memory_order_relaxed); }
  bool answers() const noexcept override { return true; }
  bool may_wait() const noexcept override { return true; }
  weir::Nanos patience() const noexcept override { return 10ms; }

  std::atomic<std::uint64_t> pokes{0};
};

CountingCarrier& carrier() {
  static CountingCarrier instance;
  return instance;
}

Breaker of_a_fleet(BreakerConfig config) {
  Breaker breaker = make(config);
  weir::BreakerCore::of(breaker)->share(&carrier(), 1);
  return breaker;
}

constexpr MonoTime kNow{std::chrono::hours(1)};

std::function<void(std::uint64_t)> admit_and_record(Breaker breaker, Outcome outcome, bool clock) {
  return [breaker, outcome, clock](std::uint64_t rounds) mutable {
    for (std::uint64_t i = 0; i < rounds; ++i) {
      if (clock) {
        auto admission = breaker.admit();
        if (admission) admission.permit().report(outcome);
      } else {
        auto admission = breaker.admit(kNow);
        if (admission) admission.permit().report(outcome, kNow);
      }
    }
  };
}

std::vector<Contestant> contestants() {
  std::vector<Contestant> all;
  static std::atomic<std::uint64_t> shared{0};
  static std::mutex mutex;
  all.push_back({"floor: one clock read", 0, [](std::uint64_t rounds) {
                   for (std::uint64_t i = 0; i < rounds; ++i) {
                     auto now = std::chrono::steady_clock::now();
                     keep(now);
                   }
                 }});
  all.push_back({"floor: one locked addition", 0, [](std::uint64_t rounds) {
                   for (std::uint64_t i = 0; i < rounds; ++i) shared.fetch_add(1);
                 }});
  all.push_back({"floor: a mutex, locked and unlocked", 0, [](std::uint64_t rounds) {
                   for (std::uint64_t i = 0; i < rounds; ++i) {
                     std::lock_guard lock(mutex);
                     keep(mutex);
                   }
                 }});
  all.push_back({"closed: admit", 3, [breaker = make(last_calls())](std::uint64_t rounds) mutable {
                   for (std::uint64_t i = 0; i < rounds; ++i) {
                     auto admission = breaker.admit();
                     keep(admission);
                   }
                 }});
  all.push_back({"closed: admit and record ok, last 100 calls", 15,
                 admit_and_record(make(last_calls()), Outcome::ok, true)});
  all.push_back({"closed: the same, last 10 s, time passed in", 15,
                 admit_and_record(make({}), Outcome::ok, false)});
  BreakerConfig rare = last_calls();
  rare.failure_percent = 60;
  all.push_back({"closed: the same, every second call fails", 0,
                 [breaker = make(rare)](std::uint64_t rounds) mutable {
                   for (std::uint64_t i = 0; i < rounds; ++i) {
                     auto admission = breaker.admit(kNow);
                     if (!admission) std::abort();
                     admission.permit().report(i % 2 == 0 ? Outcome::ok : Outcome::failure, kNow);
                   }
                 }});
  all.push_back({"closed: measured by the clock, last 100 calls", 0,
                 admit_and_record(make(measured()), Outcome::ok, true)});
  all.push_back({"closed: 2 threads on one breaker", 0,
                 admit_and_record(make(last_calls()), Outcome::ok, true), 2});
  all.push_back({"closed: 2 threads on one breaker, last 10 s", 0,
                 admit_and_record(make({}), Outcome::ok, false), 2});
  all.push_back({"closed, shared by a fleet: admit", 3,
                 [breaker = of_a_fleet(last_calls())](std::uint64_t rounds) mutable {
                   for (std::uint64_t i = 0; i < rounds; ++i) {
                     auto admission = breaker.admit();
                     keep(admission);
                   }
                 }});
  all.push_back({"closed, shared: admit and record ok, last 100 calls", 15,
                 admit_and_record(of_a_fleet(last_calls()), Outcome::ok, true)});
  all.push_back({"closed, shared: 2 threads on one breaker", 0,
                 admit_and_record(of_a_fleet(last_calls()), Outcome::ok, true), 2});
  Breaker open = make(last_calls());
  open.trip(300s);
  all.push_back({"open: reject, time passed in", 5, [open](std::uint64_t rounds) mutable {
                   const MonoTime now = weir::Clock::real().mono();
                   for (std::uint64_t i = 0; i < rounds; ++i) {
                     auto admission = open.admit(now);
                     keep(admission);
                   }
                 }});
  all.push_back({"open: the same, 2 threads", 0,
                 [open](std::uint64_t rounds) mutable {
                   const MonoTime now = weir::Clock::real().mono();
                   for (std::uint64_t i = 0; i < rounds; ++i) {
                     auto admission = open.admit(now);
                     keep(admission);
                   }
                 },
                 2});
  all.push_back({"open: reject, by the machine's clock", 0, [open](std::uint64_t rounds) mutable {
                   for (std::uint64_t i = 0; i < rounds; ++i) {
                     auto admission = open.admit();
                     keep(admission);
                   }
                 }});
  all.push_back({"concurrency: acquire and release", 12,
                 [limit = weir::Concurrency::make("upstream", {.limit = 100}).value()](
                     std::uint64_t rounds) mutable {
                   for (std::uint64_t i = 0; i < rounds; ++i) {
                     auto slot = limit.try_acquire();
                     keep(slot);
                   }
                 }});
  all.push_back({"concurrency: full, refused", 0,
                 [limit = weir::Concurrency::make("upstream", {.limit = 1}).value(),
                  held = std::shared_ptr<weir::Slot>()](std::uint64_t rounds) mutable {
                   if (!held) held = std::make_shared<weir::Slot>(limit.try_acquire());
                   for (std::uint64_t i = 0; i < rounds; ++i) {
                     auto slot = limit.try_acquire();
                     keep(slot);
                   }
                 }});
  all.push_back({"concurrency: 2 threads on one limit", 0,
                 [limit = weir::Concurrency::make("upstream", {.limit = 100}).value()](
                     std::uint64_t rounds) mutable {
                   for (std::uint64_t i = 0; i < rounds; ++i) {
                     auto slot = limit.try_acquire();
                     keep(slot);
                   }
                 },
                 2});
  all.push_back({"concurrency: of one key of many, acquire and release", 0,
                 [limit = std::make_shared<weir::KeyedConcurrency>(
                      weir::KeyedConcurrency::make("upstream", {.limit = 100}).value())](
                     std::uint64_t rounds) mutable {
                   for (std::uint64_t i = 0; i < rounds; ++i) {
                     auto slot = limit->try_acquire("tenant-7");
                     keep(slot);
                   }
                 }});
  // What a holder outside this process is given: with an id and an end of its own.
  all.push_back({"lease by an id: acquire and release", 0,
                 [limit = weir::Concurrency::make("upstream", {.limit = 100}).value()](
                     std::uint64_t rounds) mutable {
                   constexpr std::string_view kId = "holder-0123456789abcdef";
                   for (std::uint64_t i = 0; i < rounds; ++i) {
                     auto lease = limit.lease({.id = kId});
                     keep(lease);
                     if (!limit.release(kId)) std::abort();
                   }
                 }});
  all.push_back({"lease by an id: renew", 0,
                 [limit = weir::Concurrency::make("upstream", {.limit = 100}).value()](
                     std::uint64_t rounds) mutable {
                   constexpr std::string_view kId = "holder-0123456789abcdef";
                   (void)limit.lease({.id = kId});
                   for (std::uint64_t i = 0; i < rounds; ++i) {
                     auto lease = limit.renew(kId);
                     keep(lease);
                   }
                 }});
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
  const std::uint64_t rounds = quick ? 200'000 : 2'000'000;
  std::vector<Contestant> all = contestants();
  for (int turn = 0; turn < (quick ? 3 : 15); ++turn)
    for (Contestant& contestant : all)
      contestant.best = std::min(contestant.best, nanoseconds(contestant, rounds));
  std::printf("%-50s %8s %8s %12s\n", "", "ns", "goal", "allocations");
  for (const Contestant& contestant : all) {
    std::printf("%-50s %8.2f ", contestant.name.c_str(), contestant.best);
    if (contestant.goal > 0)
      std::printf("%8.0f", contestant.goal);
    else
      std::printf("%8s", "");
    std::printf(" %12llu\n", static_cast<unsigned long long>(contestant.allocated));
  }
  std::printf("words for the store from the shared breakers, in all their calls: %llu\n",
              static_cast<unsigned long long>(carrier().pokes.load()));
  return 0;
}
