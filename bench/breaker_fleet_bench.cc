// A breaker that real processes share through one real Redis:
//   - how long after one of them opened it the others are open, where the store tells them of
//   changes
//     and, in the same run, where it may not, so that they look ten times a second;
//   - what the store is asked while nothing happens, and while one process makes 10,000 calls a
//     second through the closed breaker.
//
//   breaker_fleet_bench [--quick]
//
// Every process is a fork with a Guard of its own. When a process opened is said by its listener,
// by the machine's monotonic clock, which all of them read alike.

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "testing/redis_server.h"
#include "weir/guard.h"

namespace {

using namespace std::chrono_literals;
using namespace weir;
using testing::RedisServer;

constexpr std::size_t kMostProcesses = 32;
constexpr auto kPatience = 60s;

// What the processes tell one another.
struct Board {
  std::atomic<int> opens{0};   // the first is to open it; counts the rounds
  std::atomic<int> closes{0};  // and to close it
  std::atomic<int> makes{0};   // calls are to be made: 1 yes, 2 they were
  std::atomic<bool> over{false};
  struct One {
    std::atomic<std::int64_t> opened_at{0};  // by the monotonic clock; 0: it is closed
    std::atomic<bool> pushed{false};
    std::atomic<bool> follows{false};
  };
  std::array<One, kMostProcesses> all{};
};

[[noreturn]] void give_up(const char* why) {
  std::fprintf(stderr, "breaker_fleet_bench: %s\n", why);
  std::exit(1);
}

void until(const char* what, const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) give_up(what);
    std::this_thread::sleep_for(1ms);
  }
}

class Notes final : public Observer {
 public:
  explicit Notes(Board::One& mine) : mine_(mine) {}
  void on_breaker_event(const BreakerEvent& event) override {
    mine_.opened_at = event.to == BreakerState::open ? event.at.time_since_epoch().count() : 0;
  }

 private:
  Board::One& mine_;
};

Policy policy_on(const std::string& url) {
  return Policy::parse("store: {url: '" + url + R"(', deadline: 200ms}
breakers:
  payments: {consecutive_failures: 3, failure_rate: off, window: {calls: 10}, minimum_calls: 4,
             open_wait: 60s, jitter: 0%, ramp: off, shared: true}
)")
      .value();
}

// 10,000 calls a second, or what the machine gives.
void make_calls(Breaker& breaker) {
  const auto begun = std::chrono::steady_clock::now();
  for (auto next = begun; next < begun + 5s; next += 1ms) {
    std::this_thread::sleep_until(next);
    for (int i = 0; i < 10; ++i) breaker.admit().permit().ok();
  }
}

[[noreturn]] void be_a_worker(Board& board, std::size_t index, const std::string& url) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  {
    Board::One& mine = board.all[index];
    Notes notes(mine);
    Guard guard = Guard::open(policy_on(url), {.observer = &notes}).value();
    Breaker breaker = guard.breaker("payments").value();
    int opened = 0;
    int closed = 0;
    while (!board.over) {
      const BreakerSnapshot shot = breaker.snapshot();
      mine.pushed = shot.pushed;
      mine.follows = shot.tie == FleetTie::follows;
      if (index == 0 && board.opens != opened) {
        breaker.trip(60s);
        ++opened;
      }
      if (index == 0 && board.closes != closed) {
        breaker.close();
        ++closed;
      }
      if (index == 0 && board.makes == 1) {
        make_calls(breaker);
        board.makes = 2;
      }
      std::this_thread::sleep_for(index == 0 ? 1ms : 20ms);
    }
  }
  std::_Exit(0);
}

struct Seen {
  std::vector<double> ms;  // sorted
  double at(double part) const {
    return ms[static_cast<std::size_t>(part * static_cast<double>(ms.size() - 1))];
  }
};

Seen measure(Board& board, std::size_t processes, int rounds) {
  Seen seen;
  for (int round = 0; round < rounds; ++round) {
    // At any time between two looks, and no oftener than hints are followed at once.
    std::this_thread::sleep_for(100ms + round * 13 % 100 * 1ms);
    ++board.opens;
    until("not all of them opened", [&] {
      for (std::size_t i = 0; i < processes; ++i)
        if (board.all[i].opened_at == 0) return false;
      return true;
    });
    const std::int64_t first = board.all[0].opened_at;
    for (std::size_t i = 1; i < processes; ++i)
      seen.ms.push_back(static_cast<double>(board.all[i].opened_at - first) / 1e6);
    ++board.closes;
    until("not all of them closed", [&] {
      for (std::size_t i = 0; i < processes; ++i)
        if (board.all[i].opened_at != 0) return false;
      return true;
    });
  }
  std::sort(seen.ms.begin(), seen.ms.end());
  return seen;
}

// Calls of each command so far.
std::map<std::string, long long> commands(RedisServer& server) {
  std::map<std::string, long long> out;
  const std::string stats = server.execute({"INFO", "commandstats"});
  const std::string begin = "cmdstat_";
  for (std::size_t at = stats.find(begin); at != std::string::npos;
       at = stats.find(begin, at + 1)) {
    const std::size_t colon = stats.find(":calls=", at);
    out[stats.substr(at + begin.size(), colon - at - begin.size())] =
        std::atoll(stats.c_str() + colon + std::strlen(":calls="));
  }
  return out;
}

void print_seen(const char* how, const Seen& seen, const Seen& beside) {
  std::printf("%-28s %8.1f %8.1f %8.1f %8.1f %10.2f\n", how, seen.at(0), seen.at(0.5),
              seen.at(0.99), seen.at(1), seen.at(0.5) / beside.at(0.5));
}

void print_commands(const char* when, const std::map<std::string, long long>& before,
                    const std::map<std::string, long long>& after) {
  std::printf("%-28s", when);
  for (const auto& [name, calls] : after) {
    const auto was = before.find(name);
    const long long more = calls - (was == before.end() ? 0 : was->second);
    if (more > 0 && name != "info") std::printf(" %s %lld", name.c_str(), more);
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
  const std::size_t processes = quick ? 3 : 8;
  const int rounds = quick ? 5 : 40;
  RedisServer server;
  void* const memory =
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) give_up("no shared memory");
  Board& board = *new (memory) Board;
  std::vector<pid_t> children;
  for (std::size_t i = 0; i < processes; ++i) {
    const pid_t child = ::fork();
    if (child == 0) be_a_worker(board, i, server.url());
    children.push_back(child);
  }
  const auto everybody = [&](bool pushed) {
    return std::all_of(board.all.begin(),
                       board.all.begin() + static_cast<std::ptrdiff_t>(processes),
                       [&](const Board::One& one) { return one.follows && one.pushed == pushed; });
  };
  until("not all of them are told", [&] { return everybody(true); });
  const Seen pushed = measure(board, processes, rounds);

  const auto quiet = commands(server);
  std::this_thread::sleep_for(5s);
  const auto idle = commands(server);
  board.makes = 1;
  until("the calls were not made", [&] { return board.makes == 2; });
  const auto busy = commands(server);

  // Nobody may listen any more: what stands is closed, and does not come back.
  server.execute({"ACL", "SETUSER", "default", "-subscribe"});
  server.execute({"CLIENT", "KILL", "TYPE", "pubsub"});
  until("they are still told", [&] { return everybody(false); });
  const Seen polled = measure(board, processes, rounds);

  board.over = true;
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  std::printf("open is seen by %zu other processes, ms after it opened (%zu each)\n", processes - 1,
              pushed.ms.size());
  std::printf("%-28s %8s %8s %8s %8s %10s\n", "", "least", "half", "99 %", "most", "half/looks");
  print_seen("the store tells them", pushed, polled);
  print_seen("each looks, every 100 ms", polled, polled);
  std::printf("\nwhat the store was asked by all %zu processes in 5 s\n", processes);
  print_commands("no call", quiet, idle);
  print_commands("one makes 10,000 calls/s", idle, busy);
  return 0;
}
