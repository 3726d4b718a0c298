// The Redis path beside what it is compared with, in one run:
//   - decisions a second and their latency at 1, 16, 64 and 256 outstanding, against
//   redis-benchmark
//     running a plain gcra script by EVALSHA at the same pipelining;
//   - the server's processor time a decision: one rule, four rules, denied, against that script.
//
//   redis_store_bench [--json] [--quick]
//
// Rounds take turns, the median counts. Server and client have a core each where there are two.
// A goal is a ratio within the run; on a busy machine the absolute figures mean little.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "measure.h"
#include "store/redis/asio_wire.h"
#include "store/redis/ask_codec.h"
#include "store/redis/command_writer.h"
#include "store/redis/redis_client.h"
#include "store/redis/script.h"
#include "testing/redis_rig.h"
#include "testing/redis_server.h"

namespace {

using namespace std::chrono_literals;
using namespace weir;
using weir::bench::cpu_ns;
using weir::bench::median;
using weir::bench::pin;
using namespace weir::store;
using namespace weir::store::redis;
using weir::testing::RedisServer;
using weir::testing::RigRule;

// As limiters in libraries write it: the server's time, doubles, and an array of numbers.
constexpr char kPlainScript[] = R"lua(
local rate = tonumber(ARGV[1])
local burst = tonumber(ARGV[2])
local cost = tonumber(ARGV[3])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local tat = redis.call('GET', KEYS[1])
if tat then tat = tonumber(tat) else tat = now end
if tat < now then tat = now end
local new_tat = tat + cost * rate
local diff = now - (new_tat - burst * rate)
local remaining = math.floor(diff / rate)
if remaining < 0 then
  return {0, 0, math.ceil(-diff), math.ceil(tat - now)}
end
local reset = math.ceil((new_tat - now) / 1000)
redis.call('SET', KEYS[1], new_tat, 'PX', reset + 1)
return {1, remaining, 0, reset}
)lua";

constexpr std::size_t kKeys = 20'000;
constexpr std::size_t kDepth = 64;

// ---- The server's time a decision
// -------------------------------------------------------------------

// Commands in batches down a plain socket.
class Driver {
 public:
  explicit Driver(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      std::perror("connect");
      std::exit(1);
    }
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  ~Driver() { ::close(socket_); }

  template <class Append>
  void run(std::size_t commands, Append append) {
    std::string out;
    for (std::size_t done = 0; done < commands; done += kDepth) {
      out.clear();
      for (std::size_t i = 0; i < kDepth; ++i) append(out);
      if (::send(socket_, out.data(), out.size(), 0) != static_cast<ssize_t>(out.size())) fail();
      for (std::size_t got = 0; got < kDepth;) {
        char chunk[65'536];
        const ssize_t size = ::read(socket_, chunk, sizeof(chunk));
        if (size <= 0) fail();
        reader_.feed({chunk, static_cast<std::size_t>(size)});
        while (reader_.next() == ReplyReader::Next::reply) {
          if (reader_.reply().root().type == ReplyType::error) {
            std::fprintf(stderr, "%s\n", std::string(reader_.reply().error()).c_str());
            std::exit(1);
          }
          ++got;
        }
      }
    }
  }

 private:
  [[noreturn]] static void fail() {
    std::perror("socket");
    std::exit(1);
  }
  int socket_;
  ReplyReader reader_;
};

struct Contest {
  explicit Contest(RedisServer& redis) : server(redis), driver(redis.port()) {
    for (std::size_t i = 0; i < kKeys; ++i) {
      const std::string value = "192.0.2." + std::to_string(i);
      wide.emplace_back(1, 1'000'000, 1s, Algorithm::gcra, value);
      narrow.emplace_back(2, 1, 3600s, Algorithm::gcra, value);
      for (std::uint64_t id = 3; id < 6; ++id) {
        more.emplace_back(id, 1'000'000, 1s, Algorithm::gcra, value);
      }
    }
    plain_sha = server.text({"SCRIPT", "LOAD", kPlainScript});
    server.execute({"SCRIPT", "LOAD", kAskScript.text});
  }

  std::size_t next_key() { return random() % kKeys; }

  void append_plain(std::string& out, const char* rate, const char* burst) {
    key.clear();
    plain_keys.append_counter(wide[next_key()].key(), key);
    CommandWriter writer(out);
    writer.command({"EVALSHA", plain_sha, "1", key, rate, burst, "1"});
  }
  void append_ours(std::string& out, std::span<const Counter> counters) {
    const Instant now = Clock::real().now();
    AskOptions options;
    options.loaded_at = Instant{1'700'000'000s};
    append_ask(counters, options, {now + 20ms, now - 100us}, keys, false, out);
  }

  double cost_of(std::size_t commands, const std::function<void(std::string&)>& append) {
    const double before = cpu_ns(server.pid());
    driver.run(commands, append);
    return (cpu_ns(server.pid()) - before) / static_cast<double>(commands) / 1'000;
  }

  RedisServer& server;
  Driver driver;
  KeySpace keys = KeySpace::make("weir", "").value();
  KeySpace plain_keys = KeySpace::make("plain", "").value();
  std::deque<RigRule> wide, narrow, more;
  std::string plain_sha;
  std::string key;
  std::mt19937_64 random{1};
};

std::map<std::string, double> server_time(RedisServer& server, bool quick) {
  Contest contest(server);
  const std::size_t commands = quick ? 20'032 : 100'032;
  const int rounds = quick ? 3 : 9;
  const auto plain = [&](std::string& out) { contest.append_plain(out, "1", "1000000"); };
  const auto one = [&](std::string& out) {
    const Counter counter = contest.wide[contest.next_key()].counter();
    contest.append_ours(out, {&counter, 1});
  };
  const auto denied = [&](std::string& out) {
    const Counter counter = contest.narrow[contest.next_key()].counter();
    contest.append_ours(out, {&counter, 1});
  };
  const auto four = [&](std::string& out) {
    const std::size_t i = contest.next_key();
    const std::array counters{contest.wide[i].counter(), contest.more[3 * i].counter(),
                              contest.more[3 * i + 1].counter(), contest.more[3 * i + 2].counter()};
    contest.append_ours(out, counters);
  };
  std::map<std::string, std::vector<double>> seen;
  for (int round = 0; round < rounds; ++round) {
    // Every counter is there before it is measured.
    if (round == 0) {
      contest.cost_of(kKeys * 8, denied);
      contest.cost_of(kKeys * 4, four);
    }
    seen["plain"].push_back(contest.cost_of(commands, plain));
    seen["one"].push_back(contest.cost_of(commands, one));
    seen["denied"].push_back(contest.cost_of(commands, denied));
    seen["four"].push_back(contest.cost_of(commands, four));
  }
  std::map<std::string, double> result;
  for (auto& [name, values] : seen) result[name] = median(values);
  return result;
}

// ---- Decisions a second
// -----------------------------------------------------------------------------

struct Throughput {
  double per_second = 0;
  double p50_us = 0;
  double p99_us = 0;
  double client_us = 0;  // the client's processor time a decision
};

// Keeps so many asks outstanding on one client for a while.
class ClosedLoop final : public ClientEvents, public AskHandler {
 public:
  ClosedLoop(std::uint16_t port, std::deque<RigRule>& rules)
      : rules_(rules),
        wire_(io_, {"127.0.0.1", port, ""}),
        client_({}, KeySpace::make("weir", "").value(), wire_, Clock::real(), *this) {
    client_.start();
    while (!client_.ready()) io_.run_one();
  }

  Throughput run(std::size_t outstanding, Nanos time) {
    latencies_.clear();
    until_ = Clock::real().mono() + time;
    counters_.resize(outstanding);
    started_.resize(outstanding);
    running_ = outstanding;
    timespec before{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    const MonoTime start = Clock::real().mono();
    for (std::size_t i = 0; i < outstanding; ++i) next(i);
    while (running_ > 0) io_.run_one();
    timespec after{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    const double cpu = static_cast<double>(after.tv_sec - before.tv_sec) * 1e6 +
                       static_cast<double>(after.tv_nsec - before.tv_nsec) / 1e3;
    const double seconds = std::chrono::duration<double>(Clock::real().mono() - start).count();
    std::sort(latencies_.begin(), latencies_.end());
    const double count = static_cast<double>(latencies_.size());
    return {count / seconds, latencies_[latencies_.size() / 2],
            latencies_[latencies_.size() * 99 / 100], cpu / count};
  }

 private:
  void next(std::size_t slot) {
    const MonoTime now = Clock::real().mono();
    if (now >= until_) {
      --running_;
      return;
    }
    started_[slot] = now;
    counters_[slot] = rules_[random_() % rules_.size()].counter();
    AskOptions options;
    options.answer_by = options.vote_by = now + 2s;
    options.loaded_at = Instant{1'700'000'000s};
    client_.ask({&counters_[slot], 1}, options, *this, slot);
  }
  void on_answer(std::uint64_t slot, const Answer& answer) override {
    if (!answer.decided()) {
      std::fprintf(stderr, "not decided: %s\n", std::string(answer.error->pattern).c_str());
      std::exit(1);
    }
    latencies_.push_back(
        std::chrono::duration<double, std::micro>(Clock::real().mono() - started_[slot]).count());
    next(slot);
  }
  void on_vote(const Vote&) override {}
  void on_late(const LateReply&) override {}
  void on_unknown(std::uint64_t) override {}
  void on_report(const StoreReport&) override {}
  void on_disconnected(const ErrorRow& why, std::string_view) override {
    std::fprintf(stderr, "connection lost: %s\n", std::string(why.pattern).c_str());
  }

  std::deque<RigRule>& rules_;
  boost::asio::io_context io_{1};
  AsioWire wire_;
  RedisClient client_;
  std::vector<Counter> counters_;
  std::vector<MonoTime> started_;
  std::vector<double> latencies_;
  MonoTime until_{};
  std::size_t running_ = 0;
  std::mt19937_64 random_{2};
};

double redis_benchmark(RedisServer& server, const std::string& sha, std::size_t outstanding,
                       std::size_t commands) {
  const std::string line = "taskset -c 1 redis-benchmark -p " + std::to_string(server.port()) +
                           " -c 1 -P " + std::to_string(outstanding) + " -r " +
                           std::to_string(kKeys) + " -n " + std::to_string(commands) +
                           " --csv EVALSHA " + sha +
                           " 1 weir:1:{abcdef}r:__rand_int__ 1 1000000 1 2>/dev/null";
  FILE* pipe = ::popen(line.c_str(), "r");
  std::string out;
  char chunk[4096];
  while (const std::size_t size = std::fread(chunk, 1, sizeof(chunk), pipe))
    out.append(chunk, size);
  ::pclose(pipe);
  // "test","rps",...: the second field of the last line.
  const std::size_t row = out.find("\n\"");
  if (row == std::string::npos) {
    std::fprintf(stderr, "redis-benchmark says: %s\n", out.c_str());
    std::exit(1);
  }
  const std::size_t field = out.find("\",\"", row) + 3;
  return std::strtod(out.c_str() + field, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  bool json = false;
  bool quick = false;
  for (int i = 1; i < argc; ++i) {
    json = json || std::strcmp(argv[i], "--json") == 0;
    quick = quick || std::strcmp(argv[i], "--quick") == 0;
  }
  RedisServer server;
  pin(server.pid(), 0);
  pin(0, 1);
  nlohmann::json report;

  auto cost = server_time(server, quick);
  for (const auto& [name, us] : cost) report["server_us"][name] = us;
  if (!json) {
    std::printf("server's processor time a decision     us   against plain   goal\n");
    const auto row = [&](const char* name, const char* what, const char* goal) {
      std::printf("  %-32s %6.2f %10.2f x     %s\n", what, cost[name], cost[name] / cost["plain"],
                  goal);
    };
    row("plain", "plain gcra script, allowed", "");
    row("one", "one rule, allowed", "1.15 x");
    row("denied", "one rule, denied", "0.55 x");
    row("four", "four rules in one ask, allowed", "");
    std::printf("\n%-11s %14s %14s %7s %9s %9s %11s\n", "outstanding", "benchmark/s", "weir/s",
                "ratio", "p50 us", "p99 us", "client us");
  }

  server.execute({"FLUSHALL"});
  const std::string sha = server.text({"SCRIPT", "LOAD", kPlainScript});
  std::deque<RigRule> rules;
  for (std::size_t i = 0; i < kKeys; ++i) {
    rules.emplace_back(1, 1'000'000, 1s, Algorithm::gcra, std::to_string(i));
  }
  ClosedLoop loop(server.port(), rules);
  loop.run(64, quick ? 200ms : 1s);
  for (const std::size_t outstanding : {1, 16, 64, 256}) {
    std::vector<double> theirs, ours, p50, p99, client;
    for (int round = 0; round < (quick ? 1 : 5); ++round) {
      theirs.push_back(redis_benchmark(server, sha, outstanding,
                                       (outstanding == 1 ? 10'000 : 100'000) / (quick ? 4 : 1)));
      const Throughput seen = loop.run(outstanding, quick ? 300ms : 1s);
      ours.push_back(seen.per_second);
      p50.push_back(seen.p50_us);
      p99.push_back(seen.p99_us);
      client.push_back(seen.client_us);
    }
    const double ratio = median(ours) / median(theirs);
    report["throughput"][std::to_string(outstanding)] = {
        {"redis_benchmark", median(theirs)},
        {"weir", median(ours)},
        {"ratio", ratio},
        {"p50_us", median(p50)},
        {"p99_us", median(p99)},
        {"client_us", median(client)},
    };
    if (!json) {
      std::printf("%-11zu %14.0f %14.0f %6.2fx %9.0f %9.0f %11.2f\n", outstanding, median(theirs),
                  median(ours), ratio, median(p50), median(p99), median(client));
    }
  }
  if (json) {
    std::printf("%s\n", report.dump(2).c_str());
  } else {
    std::printf("goal: 0.90 x\n");
  }
  return 0;
}
