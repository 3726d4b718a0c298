// What a caller feels when Redis hangs (SIGSTOP: connections stand, nobody answers), and what the
// ladder costs while nothing is wrong, in one run:
//   - a Guard is asked at a steady rate; after a while its server is stopped, and stays so;
//   - latency of calls before the breaker opened and after, memory, lines for the log;
//   - nanoseconds that the ladder adds to an ask of a store that answers;
//   - what a call costs while the breaker is open, beside an empty one at the same pacing.
//
//   store_hung_bench [--json] [--seconds N] [--rate N]
//
// Goals: a call that begins before the breaker opens is answered by its deadline and a millisecond;
// later ones in 1 us (p50) and 50 us (p99.9); memory stays flat.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "ladder/shard_ladder.h"
#include "testing/redis_rig.h"
#include "testing/redis_server.h"
#include "weir/guard.h"

namespace {

using namespace std::chrono_literals;
using namespace weir;
using Steady = std::chrono::steady_clock;
using weir::testing::RedisServer;
using weir::testing::RigRule;

constexpr auto kDeadline = 20ms;
constexpr int kUsers = 10'000;

double quantile(std::vector<double>& values, double q) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::size_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

double resident_mib() {
  long pages = 0;
  long ignored = 0;
  std::ifstream("/proc/self/statm") >> ignored >> pages;
  return static_cast<double>(pages) * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
}

class Events final : public Observer {
 public:
  void on_store_event(const StoreEvent& event) override {
    ++lines;
    if (event.kind == StoreEvent::Kind::away) open = true;
    if (event.kind == StoreEvent::Kind::back) open = false;
  }
  std::atomic<int> lines{0};
  std::atomic<bool> open{false};  // until every key asks the store again
};

Policy policy_of(std::uint16_t port) {
  return Policy::parse("store:\n  url: redis://127.0.0.1:" + std::to_string(port) +
                       "\n  deadline: 20ms\n  workers: {of: 2, index: 0}\n"
                       "inputs: [user]\nroutes:\n"
                       "  api: {limits: [100 per minute by user], protects: capacity}\n"
                       "  login: {limits: [100 per minute by user], protects: security}\n")
      .value();
}

// How calls follow each other: at once, or 200 us apart, meanwhile spinning or asleep. The last is
// what a server sees: a processor that has slept, and caches that others have used.
enum class Pacing : std::uint8_t { loop, spinning, asleep };
constexpr Pacing kPacings[] = {Pacing::loop, Pacing::spinning, Pacing::asleep};

// Median microseconds of a call at that pacing.
template <class Call>
double paced(Pacing pacing, Call call) {
  constexpr auto kApart = 200us;
  const int calls = pacing == Pacing::loop ? 200'000 : 10'000;
  std::vector<double> took;
  took.reserve(static_cast<std::size_t>(calls));
  auto due = Steady::now();
  for (int i = 0; i < calls; ++i) {
    // Apart also where the machine was late: calls that are made up for follow at once.
    if (pacing != Pacing::loop) due = std::max(due, Steady::now()) + kApart;
    while (pacing == Pacing::spinning && Steady::now() < due) continue;
    while (pacing == Pacing::asleep && Steady::now() < due) std::this_thread::sleep_for(20us);
    const auto begun = Steady::now();
    call(static_cast<std::size_t>(i));
    took.push_back(std::chrono::duration<double, std::micro>(Steady::now() - begun).count());
  }
  return quantile(took, 0.5);
}

// The floor: a callback with a decision, and nobody who decides. Through a pointer that the
// compiler cannot see through, as a Guard's is.
void decide_nothing(const std::function<void(Decision)>& done) {
  Decision decision;
  decision.rung = Rung::policy;
  done(std::move(decision));
}
void (*volatile g_decide_nothing)(const std::function<void(Decision)>&) = decide_nothing;

// Rows of medians by pacing, with the breaker open.
nlohmann::json calls_while_open(Guard& away, const std::vector<std::string>& users) {
  Guard memory = Guard::open(Policy::parse("inputs: [user]\nroutes:\n"
                                           "  api: {limits: [100 per minute by user], protects: "
                                           "nothing}\n")
                                 .value())
                     .value();
  std::uint64_t allowed = 0;
  const auto done = [&allowed](const Decision& decision) { allowed += decision.allowed() ? 1 : 0; };
  const auto asks = [&](Guard& guard, const char* route, std::size_t keys) {
    return [&guard, &users, route, keys, done](std::size_t i) {
      guard.check_async(route, {{"user", users[i * 7919 % keys]}}, {}, done);
    };
  };
  nlohmann::json rows = nlohmann::json::array();
  const auto row = [&rows](const char* what, const auto& call) {
    nlohmann::json medians = nlohmann::json::array();
    for (const Pacing pacing : kPacings) medians.push_back(paced(pacing, call));
    rows.push_back({{"call", what}, {"p50_us", std::move(medians)}});
  };
  row("an empty call: the floor", [&](std::size_t) { g_decide_nothing(done); });
  row("memory store, 10,000 keys", asks(memory, "api", kUsers));
  row("refused (closed), one key", asks(away, "login", 1));
  row("this worker's part, one key", asks(away, "api", 1));
  row("this worker's part, 10,000 keys", asks(away, "api", kUsers));
  return rows;
}

// Latencies in microseconds, of calls by what the breaker said when they began.
struct Seen {
  std::mutex mutex;
  std::vector<double> healthy, hung, open;
  std::atomic<std::uint64_t> asked{0};
  std::atomic<std::uint64_t> answered{0};
};

// Asks at a steady rate until `until`, each call begun on time.
void load(Guard& guard, const std::vector<std::string>& users, double rate,
          Steady::time_point until, Events& events, Seen& seen, std::vector<double> Seen::*before) {
  const auto apart =
      std::chrono::duration_cast<Steady::duration>(std::chrono::duration<double>(1 / rate));
  auto due = Steady::now();
  for (std::size_t i = 0; due < until; ++i, due += apart) {
    while (Steady::now() < due) std::this_thread::sleep_for(20us);
    std::vector<double>* const into = events.open ? &seen.open : &(seen.*before);
    ++seen.asked;
    const auto begun = Steady::now();
    guard.check_async(
        "api", {{"user", users[i * 7919 % users.size()]}}, {},
        [&seen, into, begun](const Decision&) {
          const double us =
              std::chrono::duration<double, std::micro>(Steady::now() - begun).count();
          std::lock_guard lock(seen.mutex);
          into->push_back(us);
          ++seen.answered;
        });
  }
}

// What the ladder adds to an ask of a healthy store: the question before, the knowledge after.
struct LadderCost {
  double begin_ns = 0;
  double learn_ns = 0;
};

LadderCost ladder_cost() {
  ladder::ShardLadder ladder({.breaker = {}, .known_keys = 100'000, .random_seed = 1});
  std::vector<RigRule> rules;
  rules.reserve(kUsers);
  for (int i = 0; i < kUsers; ++i)
    rules.emplace_back(1, 100, 60s, Algorithm::gcra, std::to_string(i));
  std::vector<store::Counter> counters;
  for (const RigRule& rule : rules) counters.push_back(rule.counter());
  std::vector<double> begins, learns;
  const ladder::Moment now{Instant{1'700'000'000s}, MonoTime{1'000s}};
  limit::State state;
  state.time_ns = now.store.time_since_epoch().count();
  for (int round = 0; round < 9; ++round) {
    std::uint64_t asked = 0;
    const auto first = Steady::now();
    for (int turn = 0; turn < 20; ++turn) {
      for (const store::Counter& counter : counters) {
        store::Finding finding;
        ladder::LadderVerdict verdict;
        asked += ladder.begin({.counters = {&counter, 1}}, now, {&finding, 1}, verdict) ==
                 ladder::ShardLadder::Begin::ask;
      }
    }
    const auto second = Steady::now();
    for (int turn = 0; turn < 20; ++turn) {
      for (const store::Counter& counter : counters)
        ladder.known().learn(counter, state, now.store, now.mono);
    }
    const auto third = Steady::now();
    if (asked != 20U * kUsers) std::abort();
    begins.push_back(std::chrono::duration<double, std::nano>(second - first).count() /
                     (20 * kUsers));
    learns.push_back(std::chrono::duration<double, std::nano>(third - second).count() /
                     (20 * kUsers));
  }
  return {quantile(begins, 0.5), quantile(learns, 0.5)};
}

}  // namespace

int main(int argc, char** argv) {
  bool json = false;
  int seconds = 30;
  double rate = 5'000;
  for (int i = 1; i < argc; ++i) {
    json = json || std::strcmp(argv[i], "--json") == 0;
    if (std::strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) seconds = std::atoi(argv[++i]);
    if (std::strcmp(argv[i], "--rate") == 0 && i + 1 < argc) rate = std::atof(argv[++i]);
  }
  std::vector<std::string> users;
  for (int i = 0; i < kUsers; ++i) users.push_back("user" + std::to_string(i));
  const LadderCost cost = ladder_cost();

  RedisServer server;
  Events events;
  Guard guard = Guard::open(policy_of(server.port()), {.observer = &events}).value();
  Seen seen;
  const auto expected = static_cast<std::size_t>(rate * (seconds + 5));
  for (auto* kind : {&seen.healthy, &seen.hung, &seen.open}) {
    kind->resize(expected);  // touched now, so that they are no growth later
    kind->clear();
  }
  load(guard, users, rate, Steady::now() + 4s, events, seen, &Seen::healthy);
  // A busy machine may have been taken for a slow store: the hang begins with one that answers.
  while (events.open) std::this_thread::sleep_for(1ms);
  seen.open.clear();
  const int lines_before = events.lines;
  const double before = resident_mib();
  server.pause();
  load(guard, users, rate, Steady::now() + std::chrono::seconds(seconds), events, seen,
       &Seen::hung);
  const double after = resident_mib();
  const int lines = events.lines - lines_before;
  const nlohmann::json open_calls = calls_while_open(guard, users);
  server.resume();
  const auto resumed = Steady::now();
  while (events.open && Steady::now() - resumed < 20s) std::this_thread::sleep_for(1ms);
  const double back_ms = std::chrono::duration<double, std::milli>(Steady::now() - resumed).count();
  while (seen.answered < seen.asked) std::this_thread::sleep_for(1ms);

  std::lock_guard lock(seen.mutex);
  nlohmann::json report;
  const auto told = [&](const char* name, std::vector<double>& values) {
    report[name] = {{"calls", values.size()},
                    {"p50_us", quantile(values, 0.5)},
                    {"p99_us", quantile(values, 0.99)},
                    {"p999_us", quantile(values, 0.999)},
                    {"max_us", quantile(values, 1)}};
  };
  told("healthy", seen.healthy);
  told("hung_breaker_closed", seen.hung);
  told("hung_breaker_open", seen.open);
  report["memory_mib"] = {{"before", before}, {"after", after}};
  report["log_lines"] = lines;
  report["back_after_ms"] = back_ms;
  report["open_calls"] = open_calls;
  report["ladder_ns"] = {{"before_the_ask", cost.begin_ns}, {"after_the_answer", cost.learn_ns}};
  if (json) {
    std::printf("%s\n", report.dump(2).c_str());
    return 0;
  }
  std::printf("%.0f calls/s, deadline 20 ms, Redis hung for %d s\n\n", rate, seconds);
  std::printf("%-28s %9s %10s %10s %10s %10s   goal\n", "", "calls", "p50 us", "p99 us", "p99.9 us",
              "max us");
  const auto row = [&](const char* what, const char* name, const char* goal) {
    const auto& r = report[name];
    std::printf("%-28s %9zu %10.1f %10.1f %10.1f %10.1f   %s\n", what,
                r["calls"].get<std::size_t>(), r["p50_us"].get<double>(), r["p99_us"].get<double>(),
                r["p999_us"].get<double>(), r["max_us"].get<double>(), goal);
  };
  row("Redis answers", "healthy", "");
  row("hung, breaker not yet open", "hung_breaker_closed", "max 21,000 (deadline + 1 ms)");
  row("hung, breaker open", "hung_breaker_open", "p50 1, p99.9 50");
  std::printf(
      "\nmemory %.1f MiB before, %.1f MiB after; %d lines for the log; back %.0f ms after it "
      "answered again\n",
      before, after, lines, back_ms);
  std::printf("the ladder on a healthy path: %.0f ns before the ask, %.0f ns after the answer\n",
              cost.begin_ns, cost.learn_ns);
  std::printf("\nbreaker open, p50 us of a call %12s %12s %12s\n", "in a loop", "spinning",
              "asleep");
  for (const auto& r : report["open_calls"]) {
    std::printf("%-32s %12.2f %12.2f %12.2f\n", r["call"].get<std::string>().c_str(),
                r["p50_us"][0].get<double>(), r["p50_us"][1].get<double>(),
                r["p50_us"][2].get<double>());
  }
  return 0;
}
