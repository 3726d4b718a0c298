// What a whole Guard::check of a metered route costs: while its store answers, with usage recorded
// always, only in outages, and with nothing metered; and without its store, when the call waits for
// the disk.
//
//   metered_check_bench [--folder DIR] [--seconds N]
//
// The healthy path: contestants take turns, medians of five rounds. Without the store: threads that
// each ask again when they were answered, which is what a server's callers are; ledger_bench has
// the journal alone. DIR must lie on the disk that is meant.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "weir/weir.h"

namespace {

using namespace std::chrono_literals;
using weir::MonoTime;
using weir::Nanos;

constexpr int kRounds = 5;

MonoTime now() {
  return std::chrono::steady_clock::now();
}

struct Folder {
  explicit Folder(const std::string& parent) : path(parent + "/metered-bench-XXXXXX") {
    if (::mkdtemp(path.data()) == nullptr) {
      std::perror(path.c_str());
      std::exit(1);
    }
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

weir::Guard open(const std::string& text) {
  auto policy = weir::Policy::parse(text);
  auto guard = policy ? weir::Guard::open(*policy) : weir::Result<weir::Guard>(policy.error());
  if (!guard) {
    std::fprintf(stderr, "metered_check_bench: %s\n", guard.error().message.c_str());
    std::exit(1);
  }
  return std::move(*guard);
}

std::string route(const std::string& rule, const std::string& more) {
  return "inputs: [account]\nroutes:\n  export:\n    limits: [{requests: 1000000000, per: day, by: "
         "[account]" +
         rule + "}]\n" + more;
}

// Nanoseconds a call and thread.
double check(weir::Guard& guard, int threads, int calls) {
  std::vector<std::thread> all;
  const MonoTime begun = now();
  for (int i = 0; i < threads; ++i) {
    all.emplace_back([&, account = "customer-" + std::to_string(i)] {
      for (int call = 0; call < calls; ++call) {
        if (!guard.check("export", {{"account", account}}).allowed()) {
          std::fprintf(stderr, "metered_check_bench: a call was not allowed\n");
          std::exit(1);
        }
      }
    });
  }
  for (std::thread& each : all) each.join();
  return static_cast<double>((now() - begun).count()) / calls;
}

void healthy(const std::string& parent) {
  struct Contestant {
    const char* name;
    std::string policy;
    std::vector<double> rounds[2];
  };
  Folder always(parent), outage(parent);
  std::vector<Contestant> all;
  all.push_back({"not metered", route("", "    protects: capacity\n"), {}});
  all.push_back({"metered, journal: outage",
                 "journal: " + outage.path + "\n" +
                     route(", meter: true",
                           "    protects: revenue\n    overspend: {cap: 1}\n    journal: outage\n"),
                 {}});
  all.push_back({"metered, journal: always",
                 "journal: " + always.path + "\n" +
                     route(", meter: true", "    protects: revenue\n    overspend: {cap: 1}\n"),
                 {}});
  std::vector<weir::Guard> guards;
  for (const Contestant& each : all) guards.push_back(open(each.policy));
  // So few that the journal's buffer holds them while the disk takes the last ones.
  constexpr int kCalls = 8'000;
  for (int round = 0; round < kRounds; ++round) {
    for (int threads : {1, 2}) {
      for (std::size_t i = 0; i < all.size(); ++i) {
        all[i].rounds[threads - 1].push_back(check(guards[i], threads, kCalls));
        std::this_thread::sleep_for(300ms);
      }
    }
  }
  std::printf("while the store answers (in memory), ns a call and thread; medians of %d rounds\n\n",
              kRounds);
  std::printf("%-28s %10s %10s\n", "", "1 thread", "2 threads");
  for (Contestant& each : all) {
    for (auto& rounds : each.rounds) std::sort(rounds.begin(), rounds.end());
    std::printf("%-28s %10.0f %10.0f\n", each.name, each.rounds[0][kRounds / 2],
                each.rounds[1][kRounds / 2]);
  }
}

void without_store(const std::string& parent, Nanos length) {
  std::printf("\nwithout the store: threads that wait until what they used is on the disk\n\n");
  std::printf("%8s %12s %9s %9s\n", "threads", "calls/s", "p50 us", "p99 us");
  for (const std::size_t threads : {1, 64, 512}) {
    Folder folder(parent);
    // Nobody listens on the port of discard.
    weir::Guard guard =
        open("store: {url: redis://127.0.0.1:9/0, workers: {of: 1}}\njournal: " + folder.path +
             "\n" + route(", meter: true", "    protects: revenue\n    overspend: {cap: 1}\n"));
    (void)check(guard, 4, 50);  // its breaker is open now
    std::vector<std::vector<std::int64_t>> took(threads);
    std::vector<std::thread> all;
    std::atomic<std::uint64_t> refused{0};
    const MonoTime until = now() + length;
    for (std::size_t i = 0; i < threads; ++i) {
      all.emplace_back([&, i, account = "customer-" + std::to_string(i)] {
        for (MonoTime at = now(); at < until;) {
          if (!guard.check("export", {{"account", account}}).allowed()) ++refused;
          const MonoTime then = now();
          took[i].push_back((then - at).count());
          at = then;
        }
      });
    }
    for (std::thread& each : all) each.join();
    std::vector<std::int64_t> nanos;
    for (const auto& each : took) nanos.insert(nanos.end(), each.begin(), each.end());
    std::sort(nanos.begin(), nanos.end());
    const auto at = [&nanos](double part) {
      return static_cast<double>(
                 nanos[static_cast<std::size_t>(part * static_cast<double>(nanos.size() - 1))]) /
             1e3;
    };
    std::printf("%8zu %12.0f %9.0f %9.0f", threads,
                static_cast<double>(nanos.size()) / std::chrono::duration<double>(length).count(),
                at(0.5), at(0.99));
    std::printf(refused > 0 ? "  %llu were refused\n" : "\n",
                static_cast<unsigned long long>(refused.load()));
  }
}

}  // namespace

int main(int count, char** words) {
  std::string folder = ".";
  double seconds = 3;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--folder" && i + 1 < count) {
      folder = words[++i];
    } else if (word == "--seconds" && i + 1 < count) {
      seconds = std::atof(words[++i]);
    } else {
      std::fprintf(stderr, "usage: metered_check_bench [--folder DIR] [--seconds N]\n");
      return 2;
    }
  }
  healthy(folder);
  without_store(folder, Nanos(static_cast<std::int64_t>(seconds * 1e9)));
  return 0;
}
