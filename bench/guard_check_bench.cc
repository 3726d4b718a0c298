// A whole Guard::check on the embedded store (the route found, its values encoded and digested, one
// gcra rule decided, the decision put together), beside the clock reading that each check includes
// and what no shared counter can do without: the key digested, and one word of the line that it
// names swapped, of as many lines as the store has.
//
//   guard_check_bench [--json] [--quick]
//
// Every figure is the least of several rounds in which all contestants take turns, in nanoseconds
// of wall time a call and thread, one or two threads.

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/counter_hasher.h"
#include "base/wide.h"
#include "store/memory/region.h"
#include "testing/allocations.h"
#include "weir/weir.h"

namespace {

using weir::testing::allocations;

constexpr std::size_t kKeys = 1'000'000;
constexpr std::size_t kKeyBytes = 24;

constexpr const char* kPolicy = R"(
store: {url: "memory:", max_keys: 2000000}
inputs: [user]
routes:
  api:
    limits: [{requests: 1000000, per: second, by: [user], algorithm: gcra}]
    protects: capacity
)";

// The keys of a run, one behind the other as they would come out of a network buffer.
std::string key_stream(std::size_t calls, const std::function<std::size_t()>& next) {
  std::string out;
  out.reserve(calls * kKeyBytes);
  char text[kKeyBytes + 1];
  for (std::size_t i = 0; i < calls; ++i) {
    std::snprintf(text, sizeof text, "customer-%015zu", next());
    out.append(text, kKeyBytes);
  }
  return out;
}

std::string stream_of(const std::string& kind, std::size_t calls, unsigned seed) {
  std::mt19937_64 random(seed);
  if (kind == "hot") return key_stream(calls, [] { return std::size_t{7}; });
  if (kind == "uniform") return key_stream(calls, [&] { return random() % kKeys; });
  // zipf, s = 1: rank r with weight 1 / r, by inversion of the harmonic sum.
  std::uniform_real_distribution<double> unit(0, 1);
  return key_stream(calls, [&] {
    const double rank = std::exp(unit(random) * std::log(static_cast<double>(kKeys)));
    return static_cast<std::size_t>(rank) * 2'654'435'761U % kKeys;
  });
}

double thread_cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// Processor time a call, of the thread that used the most.
double time_of(int threads, std::size_t calls, const std::function<void(int)>& work) {
  std::barrier start(threads);
  std::vector<double> took(static_cast<std::size_t>(threads));
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      start.arrive_and_wait();
      const double begun = thread_cpu_ns();
      work(t);
      took[static_cast<std::size_t>(t)] = thread_cpu_ns() - begun;
    });
  }
  for (std::thread& thread : running) thread.join();
  return *std::max_element(took.begin(), took.end()) / static_cast<double>(calls);
}

struct Row {
  std::string name;
  int threads = 1;
  double ns = 1e18;
};

}  // namespace

int main(int argc, char** argv) {
  bool json = false;
  bool quick = false;
  for (int i = 1; i < argc; ++i) {
    json = json || std::strcmp(argv[i], "--json") == 0;
    quick = quick || std::strcmp(argv[i], "--quick") == 0;
  }
  const std::size_t calls = quick ? 200'000 : 1'000'000;
  const int rounds = quick ? 3 : 9;
  weir::Guard guard = weir::Guard::open(weir::Policy::parse(kPolicy).value()).value();

  std::vector<std::string> kinds{"hot", "uniform", "zipf"};
  std::vector<std::string> streams;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    for (unsigned t = 0; t < 2; ++t)
      streams.push_back(stream_of(kinds[k], calls, static_cast<unsigned>(k * 2 + t + 1)));
  }
  std::atomic<std::uint64_t> allocated{0};
  const auto check_all = [&](const std::string& stream) {
    const auto check = [&](std::size_t i) {
      const weir::Descriptor user{"user",
                                  std::string_view(stream).substr(i * kKeyBytes, kKeyBytes)};
      const weir::Decision decision = guard.check("api", std::span(&user, 1));
      if (decision.verdict == weir::Verdict::refused) std::abort();
    };
    check(0);  // a thread's first use registers what it leaves behind
    const std::uint64_t before = allocations();
    for (std::size_t i = 0; i < calls; ++i) check(i);
    allocated += allocations() - before;
  };
  for (const std::string& stream : streams)
    check_all(stream);  // every key is there before the clock runs
  allocated = 0;

  std::vector<Row> rows{
      {"bare compare-and-swap", 1}, {"bare compare-and-swap", 2}, {"clock reading", 1}};
  for (const std::string& kind : kinds) {
    rows.push_back({"digest and swap, " + kind, 1});
    rows.push_back({"digest and swap, " + kind, 2});
    rows.push_back({"Guard::check " + kind, 1});
    rows.push_back({"Guard::check " + kind, 2});
  }
  std::atomic<std::uint64_t> counter{0};
  const auto swap_all = [&](int) {
    for (std::size_t i = 0; i < calls; ++i) {
      std::uint64_t seen = counter.load(std::memory_order_relaxed);
      while (!counter.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel)) {
      }
    }
  };
  struct alignas(64) Line {
    std::uint64_t word;
  };
  constexpr std::size_t kLines = kKeys * 2 * 5 / 9;
  const weir::store::Region region = [] {
    auto mapped = weir::store::Region::map(kLines * sizeof(Line)).value();
    mapped.prefer_huge_pages_from(0);  // as the store's own
    return mapped;
  }();
  Line* const lines = static_cast<Line*>(region.data());
  const weir::CounterHasher hasher = weir::CounterHasher::of_process();
  const auto swap_named = [&](const std::string& stream) {
    for (std::size_t i = 0; i < calls; ++i) {
      const weir::KeyDigest digest =
          hasher(std::string_view(stream).substr(i * kKeyBytes, kKeyBytes));
      const auto place =
          static_cast<std::size_t>((static_cast<weir::Wide>(digest.hi) * kLines) >> 64);
      std::atomic_ref word(lines[place].word);
      std::uint64_t seen = word.load(std::memory_order_relaxed);
      while (!word.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel)) {
      }
    }
  };
  std::atomic<std::int64_t> sink{0};
  const auto read_clock = [&](int) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < calls; ++i)
      sum += weir::Clock::real().now().time_since_epoch().count();
    sink = sum;
  };
  for (int round = 0; round < rounds; ++round) {
    std::size_t at = 0;
    const auto take = [&](int threads, const std::function<void(int)>& work) {
      rows[at].ns = std::min(rows[at].ns, time_of(threads, calls, work));
      ++at;
    };
    take(1, swap_all);
    take(2, swap_all);
    take(1, read_clock);
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      take(1, [&](int) { swap_named(streams[k * 2]); });
      take(2, [&](int t) { swap_named(streams[k * 2 + static_cast<std::size_t>(t)]); });
      take(1, [&](int) { check_all(streams[k * 2]); });
      take(2, [&](int t) { check_all(streams[k * 2 + static_cast<std::size_t>(t)]); });
    }
  }

  if (json) {
    std::printf("{\"allocations\":%llu,\"rows\":[",
                static_cast<unsigned long long>(allocated.load()));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::printf("%s{\"name\":\"%s\",\"threads\":%d,\"ns\":%.1f}", i == 0 ? "" : ",",
                  rows[i].name.c_str(), rows[i].threads, rows[i].ns);
    }
    std::printf("]}\n");
    return 0;
  }
  std::printf("%-26s %8s %10s\n", "one gcra rule", "threads", "ns a call");
  for (const Row& row : rows)
    std::printf("%-26s %8d %10.1f\n", row.name.c_str(), row.threads, row.ns);
  std::printf("allocations in all checks: %llu\n",
              static_cast<unsigned long long>(allocated.load()));
  std::printf("goal: a whole check within 150 ns, no allocation\n");
  return 0;
}
