// What an outage costs the store when it is over: each key's first ask brings what this worker
// admitted meanwhile. One Redis and one worker; a unit of every key is admitted while the server is
// stopped, and then every key is asked for once, and once more.
//
//   owed_merge_bench [--json] [--quick] [--keys N] [--only ALGORITHM]
//
// Other algorithms than gcra are measured with a quarter of the keys, where none is named, so that
// all are within a minute: what an ask costs does not depend on how many there are.
//
// What counts is the ratio of the two rounds, of the same keys in the same run: processor time of
// Redis, and wall time, an ask that brings what is owed against one that does not. And beside it
// what a key takes of the server's memory, by algorithm, after one charge and after the outage.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "guard/impl.h"
#include "testing/redis_server.h"
#include "weir/guard.h"

namespace {

using namespace std::chrono_literals;
using namespace weir;
using Steady = std::chrono::steady_clock;
using testing::RedisServer;

constexpr int kOutstanding = 32;

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(1);
}

Policy policy_on(const RedisServer& server, const std::string& algorithm, std::size_t keys) {
  // Room beyond the keys: entries that hold spending stay.
  return Policy::parse("store:\n  url: redis://127.0.0.1:" + std::to_string(server.port()) +
                       "\n  prefix: " + algorithm + "\n  known_keys: " + std::to_string(2 * keys) +
                       R"(
  deadline: 1s
  workers: {of: 1, index: 0}
  breaker: {cooldown: 100ms, max_cooldown: 200ms}
inputs: [user]
routes:
  r:
    limits: [{requests: 1000, per: day, by: [user], algorithm: )" +
                       algorithm + "}]\n    protects: capacity\n")
      .value();
}

double metric(Guard& guard, std::string_view sample) {
  std::string text;
  guard.impl().metrics().write(text);
  const std::string line = "\n" + std::string(sample) + " ";
  const std::size_t at = text.find(line);
  return at == std::string::npos ? -1 : std::strtod(text.c_str() + at + line.size(), nullptr);
}

void await(const char* what, const std::function<bool()>& done) {
  const auto end = Steady::now() + 30s;
  while (!done()) {
    if (Steady::now() > end) give_up(std::string("does not get there: ") + what);
    std::this_thread::sleep_for(5ms);
  }
}

// Seconds of processor time that the server has had.
double cpu_of(RedisServer& server) {
  const std::string info = server.text({"INFO", "cpu"});
  const auto field = [&](const char* name) {
    const std::size_t at = info.find(name);
    return at == std::string::npos ? 0
                                   : std::strtod(info.c_str() + at + std::strlen(name), nullptr);
  };
  return field("used_cpu_user:") + field("used_cpu_sys:");
}

double memory_of(RedisServer& server) {
  const std::string info = server.text({"INFO", "memory"});
  const std::size_t at = info.find("used_memory:");
  return at == std::string::npos ? 0 : std::strtod(info.c_str() + at + 12, nullptr);
}

struct Round {
  double redis_us = 0;  // processor time, an ask
  double wall_us = 0;
};

// Asks for every key once, all by `rung`.
Round ask_all(Guard& guard, RedisServer& server, const std::vector<std::string>& users, Rung rung) {
  std::counting_semaphore<kOutstanding> room{kOutstanding};
  std::atomic<std::uint64_t> otherwise{0};
  const double cpu = rung == Rung::store ? cpu_of(server) : 0;
  const auto begun = Steady::now();
  for (const std::string& user : users) {
    room.acquire();
    guard.check_async("r", {{"user", user}}, {}, [&](Decision decision) {
      if (!decision.allowed() || decision.rung != rung) ++otherwise;
      room.release();
    });
  }
  for (int i = 0; i < kOutstanding; ++i) room.acquire();
  const double seconds = std::chrono::duration<double>(Steady::now() - begun).count();
  if (otherwise != 0)
    give_up(std::to_string(otherwise) + " asks were not decided as they should be");
  const auto count = static_cast<double>(users.size());
  const double used = rung == Rung::store ? cpu_of(server) - cpu : 0;
  return {used * 1e6 / count, seconds * 1e6 / count};
}

struct Measured {
  Round known;  // before the outage, of keys that are there
  Round away;   // while the store is away
  Round owing;  // the first asks after it
  Round after;  // the second ones
  double owed = 0;
  double bytes = 0;       // a key, with its name and its time to live
  double bytes_owed = 0;  // and with the record of what one worker told
};

Measured measure(const std::string& algorithm, std::size_t keys) {
  RedisServer server;
  Guard guard = Guard::open(policy_on(server, algorithm, keys)).value();
  std::vector<std::string> users;
  for (std::size_t i = 0; i < keys; ++i) users.push_back("user" + std::to_string(i));
  Measured out;
  const auto count = static_cast<double>(keys);
  const double empty = memory_of(server);
  (void)ask_all(guard, server, users, Rung::store);
  out.bytes = (memory_of(server) - empty) / count;
  out.known = ask_all(guard, server, users, Rung::store);
  server.pause();
  for (int i = 0; metric(guard, "weir_breaker_state{shard=\"0\"}") != 2; ++i) {
    if (i > 200) give_up("the breaker does not open");
    (void)guard.check("r", {{"user", "noticing"}});
  }
  out.away = ask_all(guard, server, users, Rung::share);
  out.owed = metric(guard, "weir_owed_units{shard=\"0\"}");
  server.resume();
  await("the breaker closes",
        [&] { return metric(guard, "weir_breaker_state{shard=\"0\"}") == 0; });
  out.owing = ask_all(guard, server, users, Rung::store);
  if (metric(guard, "weir_owed_units{shard=\"0\"}") > 10) give_up("some is still owed");
  out.after = ask_all(guard, server, users, Rung::store);
  out.bytes_owed = (memory_of(server) - empty) / count;
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  bool json = false;
  std::size_t keys = 100'000;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    json |= std::strcmp(argv[i], "--json") == 0;
    if (std::strcmp(argv[i], "--quick") == 0) keys = 5'000;
    if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc) only = argv[++i];
    if (std::strcmp(argv[i], "--keys") == 0 && i + 1 < argc) {
      keys = static_cast<std::size_t>(std::strtoull(argv[++i], nullptr, 10));
    }
  }
  if (keys == 0) give_up("--keys must be above 0");
  nlohmann::json out{{"keys", keys}};
  if (!json) {
    std::printf(
        "%zu keys of gcra, a quarter as many of others\na unit of each owed               Redis "
        "us, an ask: owing, after      ratio     "
        "wall us: owing, after, away     bytes a key, after an outage\n",
        keys);
  }
  for (const char* algorithm : {"gcra", "fixed_window", "sliding_window", "sliding_log"}) {
    if (!only.empty() && only != algorithm) continue;
    const bool whole = !only.empty() || std::strcmp(algorithm, "gcra") == 0;
    const std::size_t count = whole ? keys : std::max<std::size_t>(keys / 4, 1);
    const Measured found = measure(algorithm, count);
    const double ratio = found.owing.redis_us / found.after.redis_us;
    const double wall = found.owing.wall_us / found.after.wall_us;
    out[algorithm] = {{"keys", count},
                      {"owed_units", found.owed},
                      {"known_redis_us", found.known.redis_us},
                      {"owing_redis_us", found.owing.redis_us},
                      {"after_redis_us", found.after.redis_us},
                      {"redis_ratio", ratio},
                      {"owing_wall_us", found.owing.wall_us},
                      {"after_wall_us", found.after.wall_us},
                      {"away_wall_us", found.away.wall_us},
                      {"wall_ratio", wall},
                      {"bytes_a_key", found.bytes},
                      {"bytes_a_key_after_an_outage", found.bytes_owed}};
    if (!json) {
      std::printf("%-32s %20.2f %9.2f %12.2f x %14.2f %8.2f %6.2f %15.0f %8.0f\n", algorithm,
                  found.owing.redis_us, found.after.redis_us, ratio, found.owing.wall_us,
                  found.after.wall_us, found.away.wall_us, found.bytes, found.bytes_owed);
    }
  }
  if (json) std::printf("%s\n", out.dump().c_str());
  return 0;
}
