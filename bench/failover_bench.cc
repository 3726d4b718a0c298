// How long a client gets answers that are not the store's, when a master dies: under Sentinels, and
// in a Cluster. Real servers; the master is killed N times, each time with everything set up anew.
// Most of what a client sees is the servers' own time to agree on another master; it is told apart.
//
//   failover_bench [--json] [--quick] [--kills N]
//
// A client asks for some keys in turn, as fast as answers come but no more often than once a
// millisecond, and writes down who decided. The promotion is when the new master says that it is
// one, looked at every few milliseconds.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "testing/redis_cluster.h"
#include "testing/redis_server.h"
#include "weir/guard.h"

namespace {

using namespace std::chrono_literals;
using namespace weir;
using Steady = std::chrono::steady_clock;
using testing::RedisCluster;
using testing::RedisServer;

constexpr int kKeys = 32;
constexpr int kAgreeMs = 1'000;  // how long the servers wait to be sure

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(1);
}

void await(const char* what, const std::function<bool()>& done) {
  const auto end = Steady::now() + 60s;
  while (!done()) {
    if (Steady::now() > end) give_up(std::string("does not get there: ") + what);
    std::this_thread::sleep_for(3ms);
  }
}

double ms(Steady::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

// Whatever is set up, and what is killed in it.
class Stage {
 public:
  virtual ~Stage() = default;
  virtual std::string url() const = 0;
  virtual RedisServer& master() = 0;
  virtual RedisServer& replica() = 0;
  // Whether that key is counted by the one that is killed.
  virtual bool is_hit(const std::string& user) = 0;
};

bool holds(RedisServer& server, const std::string& user) {
  return !server.keys("*/" + user).empty();
}

class Sentinels final : public Stage {
 public:
  Sentinels() {
    replica_ = std::make_unique<RedisServer>(RedisServer::Options{
        .arguments = {"--replicaof", "127.0.0.1", std::to_string(master_.port()),
                      "--repl-diskless-sync-delay", "0"}});
    for (int i = 0; i < 3; ++i) {
      sentinels_.push_back(std::make_unique<RedisServer>(RedisServer::Options{
          .sentinel = "sentinel monitor main 127.0.0.1 " + std::to_string(master_.port()) +
                      " 2\nsentinel down-after-milliseconds main " + std::to_string(kAgreeMs) +
                      "\nsentinel failover-timeout main 5000\n"}));
    }
    for (const auto& sentinel : sentinels_) {
      await("sentinels know each other and the replica", [&] {
        const std::string said = sentinel->execute({"SENTINEL", "MASTER", "main"});
        return said.find("$10\r\nnum-slaves\r\n$1\r\n1") != std::string::npos &&
               said.find("$19\r\nnum-other-sentinels\r\n$1\r\n2") != std::string::npos;
      });
    }
    await("the replica is in step", [&] {
      return replica_->text({"INFO", "replication"}).find("master_link_status:up") !=
             std::string::npos;
    });
  }
  std::string url() const override {
    std::string hosts;
    for (const auto& sentinel : sentinels_) {
      hosts += (hosts.empty() ? "" : ",") + ("127.0.0.1:" + std::to_string(sentinel->port()));
    }
    return "redis+sentinel://" + hosts + "/main";
  }
  RedisServer& master() override { return master_; }
  RedisServer& replica() override { return *replica_; }
  bool is_hit(const std::string&) override { return true; }

 private:
  RedisServer master_;
  std::unique_ptr<RedisServer> replica_;
  std::deque<std::unique_ptr<RedisServer>> sentinels_;
};

class Cluster final : public Stage {
 public:
  std::string url() const override { return cluster_.url(); }
  RedisServer& master() override { return cluster_.node(0); }
  RedisServer& replica() override { return cluster_.replica_of(0); }
  bool is_hit(const std::string& user) override { return holds(cluster_.node(0), user); }

 private:
  RedisCluster cluster_{{.replicas = 1, .node_timeout_ms = kAgreeMs}};
};

// One kill, in milliseconds.
struct Kill {
  double agreed = 0;         // from the kill to the promotion
  double first_exact = 0;    // from the promotion until the store decided some key that was hit
  double all_exact = 0;      // and until it decided all of them, and went on to
  double longest_gap = 0;    // of one key: from its last exact answer before to its next
  std::uint64_t others = 0;  // answers of keys of other masters that were not exact
};

struct Key {
  std::string user;
  bool hit = false;
  Steady::time_point exact{};  // its last exact answer
  Steady::time_point back{};   // when it became exact again
  Steady::duration gap{0};
  bool away = false;
};

Kill kill_once(Stage& stage) {
  Guard guard = Guard::open(Policy::parse("store: {url: '" + stage.url() +
                                          "', deadline: 50ms, workers: {of: 1, index: 0}}\n" + R"(
inputs: [user]
routes:
  r: {limits: [{requests: 1000000, per: day, by: [user]}], protects: capacity}
)")
                                .value())
                    .value();
  const auto exact = [&](const std::string& user) {
    return guard.check("r", {{"user", user}}).rung == Rung::store;
  };
  std::vector<Key> keys;
  for (int i = 0; i < kKeys; ++i) {
    keys.push_back({.user = "user" + std::to_string(i)});
    await("all are decided by the store", [&] { return exact(keys.back().user); });
  }
  for (Key& key : keys) key.hit = stage.is_hit(key.user);
  std::atomic<bool> stop{false};
  std::atomic<bool> all_back{false};
  std::atomic<std::uint64_t> others{0};
  Steady::time_point killed{};
  std::atomic<bool> was_killed{false};
  std::thread client([&] {
    while (!stop) {
      bool back = true;
      for (Key& key : keys) {
        const auto begun = Steady::now();
        const bool by_store = exact(key.user);
        const auto now = Steady::now();
        if (!key.hit && !by_store && was_killed) ++others;
        if (by_store && key.away) {
          key.back = now;
          key.gap = std::max(key.gap, now - key.exact);
        }
        key.away = !by_store;
        if (by_store) key.exact = now;
        back &= !key.hit || (key.back != Steady::time_point{} && !key.away && now - key.back > 1s);
        std::this_thread::sleep_until(begun + 1ms);
      }
      all_back = back;
    }
  });
  std::this_thread::sleep_for(300ms);
  was_killed = true;
  killed = Steady::now();
  stage.master().kill();
  await("another one is the master", [&] {
    return stage.replica().text({"INFO", "replication"}).find("role:master") != std::string::npos;
  });
  const auto promoted = Steady::now();
  await("all keys are back", [&] { return all_back.load(); });
  stop = true;
  client.join();
  Kill out{.agreed = ms(promoted - killed), .first_exact = 1e9, .others = others};
  for (const Key& key : keys) {
    if (!key.hit) continue;
    out.first_exact = std::min(out.first_exact, ms(key.back - promoted));
    out.all_exact = std::max(out.all_exact, ms(key.back - promoted));
    out.longest_gap = std::max(out.longest_gap, ms(key.gap));
  }
  return out;
}

struct Spread {
  double median = 0;
  double worst = 0;
};

Spread spread(const std::vector<Kill>& kills, double Kill::*of) {
  std::vector<double> values;
  for (const Kill& kill : kills) values.push_back(kill.*of);
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.back()};
}

}  // namespace

int main(int argc, char** argv) {
  bool json = false;
  int kills = 3;  // a minute in all
  for (int i = 1; i < argc; ++i) {
    json |= std::strcmp(argv[i], "--json") == 0;
    if (std::strcmp(argv[i], "--quick") == 0) kills = 2;
    if (std::strcmp(argv[i], "--kills") == 0 && i + 1 < argc) kills = std::atoi(argv[++i]);
  }
  if (kills < 1) give_up("--kills must be above 0");
  nlohmann::json out{{"kills", kills}, {"keys", kKeys}, {"servers_wait_ms", kAgreeMs}};
  if (!json) {
    std::printf("%d kills each, %d keys; the servers wait %d ms to be sure. Median and worst, ms\n",
                kills, kKeys, kAgreeMs);
    std::printf("%-10s %22s %24s %24s %24s %8s\n", "", "kill to promotion", "first exact after it",
                "all exact after it", "longest gap of a key", "others");
  }
  for (const char* name : {"sentinel", "cluster"}) {
    std::vector<Kill> seen;
    for (int i = 0; i < kills; ++i) {
      std::unique_ptr<Stage> stage;
      if (std::strcmp(name, "sentinel") == 0) {
        stage = std::make_unique<Sentinels>();
      } else {
        stage = std::make_unique<Cluster>();
      }
      seen.push_back(kill_once(*stage));
    }
    std::uint64_t others = 0;
    for (const Kill& kill : seen) others += kill.others;
    const Spread agreed = spread(seen, &Kill::agreed);
    const Spread first = spread(seen, &Kill::first_exact);
    const Spread all = spread(seen, &Kill::all_exact);
    const Spread gap = spread(seen, &Kill::longest_gap);
    const auto both = [](const Spread& s) {
      return nlohmann::json{{"median", s.median}, {"worst", s.worst}};
    };
    out[name] = {{"kill_to_promotion_ms", both(agreed)},
                 {"first_exact_after_ms", both(first)},
                 {"all_exact_after_ms", both(all)},
                 {"longest_gap_ms", both(gap)},
                 {"others_not_exact", others}};
    if (!json) {
      std::printf("%-10s %12.0f %9.0f %14.0f %9.0f %14.0f %9.0f %14.0f %9.0f %8llu\n", name,
                  agreed.median, agreed.worst, first.median, first.worst, all.median, all.worst,
                  gap.median, gap.worst, static_cast<unsigned long long>(others));
    }
  }
  if (json) std::printf("%s\n", out.dump().c_str());
  return 0;
}
