#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "testing/redis_server.h"
#include "weir/guard.h"

namespace weir::fault {

using std::chrono::milliseconds;
using std::chrono::seconds;

// How much later than its deadline an answer may come on a machine that is busy with something
// else: of those that waited for it nine of ten no later than the first, and all no later than the
// second.
inline constexpr auto kGrace = milliseconds(250);
inline constexpr auto kAnswered = seconds(3);
// For what has to happen in the end.
inline constexpr auto kPatience = seconds(20);

// A policy on a Redis at that port, as the first of two workers:
//   login   5 an hour a user, closed
//   count   1,000,000 an hour, closed: what it counted can be compared with what was answered
//   search  10 an hour a user, bounded: this worker's part is 5
//   status  3 an hour a user (gcra), open
//   audit   10 an hour a user, a sliding log, closed
// The breaker is quick, so that a test need not wait for it.
struct PolicyOptions {
  std::string url = {};  // empty: a server at the port
  // Shorter than any fault lasts, and long enough for a machine that is busy with something else.
  std::string deadline = "200ms";
  std::string store = {};  // more lines under `store:`
  std::uint32_t search = 10;
};
Policy policy_on(std::uint16_t port, const PolicyOptions& options = {});

// Remembers what became of the store.
class Heard final : public Observer {
 public:
  void on_store_event(const StoreEvent& event) override;
  int count(StoreEvent::Kind kind) const;
  // By how much its clock was set, each time, and how far it was ahead of the machine's then.
  struct ClockSet {
    Nanos moved{0};
    Nanos skew{0};
  };
  std::vector<ClockSet> clock_sets() const;
  bool said(StoreEvent::Kind kind, std::string_view words) const;
  std::string all() const;

 private:
  struct Line {
    StoreEvent::Kind kind;
    std::string why;
  };
  mutable std::mutex mutex_;
  std::vector<Line> lines_;
  std::vector<ClockSet> clock_sets_;
};

// What came of a number of checks.
struct Tally {
  std::uint64_t asked = 0;
  std::map<Verdict, std::uint64_t> verdicts;
  std::map<Rung, std::uint64_t> rungs;
  std::uint64_t allowed_by_store = 0;
  std::uint64_t broken = 0;  // decisions that no policy can give: see is_sound()
  std::string example;       // one of those
  std::chrono::nanoseconds slowest{0};
  std::uint64_t waited = 0;  // answers that came about at their deadline, or later
  std::uint64_t late = 0;    // of these, more than kGrace later

  void add(const Decision& decision, std::chrono::nanoseconds took,
           std::chrono::nanoseconds deadline);
  bool in_time() const { return late <= 1 + waited / 10 && slowest < kAnswered; }
  std::string times() const;
  void add(const Tally& other);
  std::uint64_t allowed() const;
};

// 200, 429 or 503, with numbers only where somebody knows them and none above its limit.
bool is_sound(const Decision& decision);

// One check, timed and added up.
Decision check(Guard& guard, std::string_view route, std::string_view user, Tally& tally,
               CheckOptions options = {});

// Threads that check one route again and again until stopped.
class Load {
 public:
  Load(Guard& guard, std::string route, std::string user, int threads, CheckOptions options = {});
  ~Load();
  Tally stop();
  std::uint64_t asked() const { return asked_.load(); }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> asked_{0};
  std::mutex mutex_;
  Tally tally_;
  std::vector<std::thread> threads_;
};

bool eventually(const std::function<bool()>& done, std::chrono::nanoseconds within = kPatience);
// Probes until the store decides that key again.
bool until_store(Guard& guard, std::string_view route, std::string_view user);

// The value of one sample of /metrics, by name and labels as printed; -1 where there is none.
double metric(Guard& guard, std::string_view sample);
// Errors of all classes, or of one.
double store_errors(Guard& guard, std::string_view error_class);

// Units that the store has counted for a user of `count`.
std::uint64_t counted(Guard& guard, std::string_view user);

// Keys of that server without a time to live, by name.
std::string immortal_keys(testing::RedisServer& server);

}  // namespace weir::fault
