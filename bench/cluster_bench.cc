// Requests of 1, 2 and 10 rules that lie in as many slots, on a Cluster of three masters beside one
// Redis, in one run:
//   - over a way that takes a millisecond in each direction: how long a request takes, against the
//     same rules asked for one after the other, as a client does that pays a round trip a key;
//   - on the machine itself: decisions a second with 32 outstanding, and the processor time of
//   ours.
//
//   cluster_bench [--json] [--quick]
//
// Rounds take turns, the median counts. A goal is a ratio within the run: ten rules on the cluster
// cost one round trip, so at most 1.5 times what one rule does.

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <semaphore>
#include <string>
#include <vector>

#include "drill/proxy/fault_proxy.h"
#include "testing/redis_cluster.h"
#include "testing/redis_server.h"
#include "weir/guard.h"

namespace {

using namespace std::chrono_literals;
using namespace weir;
using Steady = std::chrono::steady_clock;
using drill::FaultProxy;
using testing::RedisCluster;
using testing::RedisServer;

constexpr int kMostRules = 10;
constexpr int kUsers = 500;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string route_of(int rules) {
  return "r" + std::to_string(rules);
}

Policy policy_on(const std::string& url) {
  std::string text = "store: {url: '" + url + "', deadline: 1s, connect_timeout: 5s}\ninputs: [";
  for (int i = 0; i < kMostRules; ++i) text += (i == 0 ? "d" : ", d") + std::to_string(i);
  text += "]\nroutes:\n";
  for (const int rules : {1, 2, kMostRules}) {
    text += "  " + route_of(rules) + ":\n    protects: side_effects\n    limits:\n";
    for (int i = 0; i < rules; ++i) {
      text += "      - {requests: 1000000, per: hour, by: [d" + std::to_string(i) +
              "], algorithm: gcra}\n";
    }
  }
  return Policy::parse(text).value();
}

// The values of one request; each rule's lies in a slot of its own.
struct Request {
  std::vector<std::string> text;
  std::vector<Descriptor> values;

  Request(int user, int rules, int first = 0) {
    for (int i = first; i < first + rules; ++i) {
      text.push_back("d" + std::to_string(i));
      text.push_back("u" + std::to_string(user) + "-" + std::to_string(i));
    }
    for (std::size_t i = 0; i < text.size(); i += 2) values.push_back({text[i], text[i + 1]});
  }
};

void must(const Decision& decision) {
  if (decision.allowed() && decision.rung == Rung::store) return;
  std::fprintf(stderr, "not allowed by the store: %s\n",
               std::string(to_string(decision.reason)).c_str());
  std::exit(1);
}

// Microseconds of one request with all rules.
double together_us(Guard& guard, int rules, int rounds) {
  std::vector<double> took;
  for (int i = 0; i < rounds; ++i) {
    const Request request(i % kUsers, rules);
    const auto begun = Steady::now();
    must(guard.check(route_of(rules), request.values));
    took.push_back(std::chrono::duration<double, std::micro>(Steady::now() - begun).count());
  }
  return median(took);
}

// The same, a call a rule.
double one_by_one_us(Guard& guard, int rules, int rounds) {
  std::vector<double> took;
  for (int i = 0; i < rounds; ++i) {
    const auto begun = Steady::now();
    for (int rule = 0; rule < rules; ++rule) {
      Request request(i % kUsers * kMostRules + rule, 1);
      must(guard.check(route_of(1), request.values));
    }
    took.push_back(std::chrono::duration<double, std::micro>(Steady::now() - begun).count());
  }
  return median(took);
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Flow {
  double per_second = 0;
  double our_us = 0;  // of processor time, a decision
};

// Decisions with 32 outstanding, for a while.
Flow flow(Guard& guard, int rules, std::chrono::milliseconds length) {
  constexpr int kOutstanding = 32;
  std::vector<std::unique_ptr<Request>> requests;
  for (int i = 0; i < kUsers; ++i) requests.push_back(std::make_unique<Request>(i, rules));
  std::counting_semaphore<kOutstanding> room{kOutstanding};
  std::uint64_t sent = 0;
  const std::string route = route_of(rules);
  const double cpu = cpu_seconds();
  const auto begun = Steady::now();
  while (Steady::now() < begun + length) {
    room.acquire();
    guard.check_async(route, requests[sent++ % kUsers]->values, {}, [&](Decision decision) {
      must(decision);
      room.release();
    });
  }
  for (int i = 0; i < kOutstanding; ++i) room.acquire();
  const double seconds = std::chrono::duration<double>(Steady::now() - begun).count();
  const auto count = static_cast<double>(sent);
  return {count / seconds, (cpu_seconds() - cpu) * 1e6 / count};
}

Guard open(const std::string& url) {
  auto guard = Guard::open(policy_on(url));
  if (!guard) {
    std::fprintf(stderr, "%s\n", guard.error().message.c_str());
    std::exit(1);
  }
  return *std::move(guard);
}

}  // namespace

int main(int argc, char** argv) {
  bool json = false;
  bool quick = false;
  for (int i = 1; i < argc; ++i) {
    json |= std::strcmp(argv[i], "--json") == 0;
    quick |= std::strcmp(argv[i], "--quick") == 0;
  }
  const int rounds = quick ? 60 : 400;
  const auto length = quick ? 300ms : 1'500ms;

  std::vector<std::unique_ptr<FaultProxy>> ways;
  const auto far = [&](std::uint16_t port) {
    ways.push_back(FaultProxy::start({.target = "127.0.0.1:" + std::to_string(port)}).value());
    return ways.back()->port();
  };
  RedisServer single;
  RedisCluster near;
  RedisCluster distant({.announced = far});
  const std::uint16_t to_single = far(single.port());
  Guard one_far = open("redis://127.0.0.1:" + std::to_string(to_single));
  Guard many_far = open(distant.url());
  Guard one = open("redis://127.0.0.1:" + std::to_string(single.port()));
  Guard many = open(near.url());
  for (const auto& way : ways) way->set({.request_delay = 1ms, .reply_delay = 1ms});

  nlohmann::json out;
  std::map<int, double> cluster_us;
  if (!json) {
    std::printf(
        "a millisecond away, each direction             one Redis   cluster of 3   one rule at "
        "a time\n");
  }
  for (const int rules : {1, 2, kMostRules}) {
    const double on_one = together_us(one_far, rules, rounds);
    const double on_many = together_us(many_far, rules, rounds);
    const double serial = one_by_one_us(many_far, rules, std::max(rounds / rules, 10));
    cluster_us[rules] = on_many;
    out["far"][std::to_string(rules)] = {
        {"one_us", on_one}, {"cluster_us", on_many}, {"one_by_one_us", serial}};
    if (!json) {
      std::printf(
          "%2d rules, median                             %7.2f ms     %7.2f ms          %7.2f "
          "ms\n",
          rules, on_one / 1e3, on_many / 1e3, serial / 1e3);
    }
  }
  const double ratio = cluster_us[kMostRules] / cluster_us[1];
  out["ten_rules_against_one"] = ratio;
  out["goal"] = 1.5;
  if (!json) {
    std::printf("ten rules against one, on the cluster: %.2f x (goal: at most 1.50 x)\n\n", ratio);
    std::printf(
        "on this machine, 32 outstanding      one Redis: a second, our us    cluster of 3: a "
        "second, our us\n");
  }
  for (const int rules : {1, 2, kMostRules}) {
    std::vector<double> one_rate, one_cpu, many_rate, many_cpu;
    for (int round = 0; round < (quick ? 1 : 3); ++round) {
      const Flow a = flow(one, rules, length);
      const Flow b = flow(many, rules, length);
      one_rate.push_back(a.per_second);
      one_cpu.push_back(a.our_us);
      many_rate.push_back(b.per_second);
      many_cpu.push_back(b.our_us);
    }
    out["near"][std::to_string(rules)] = {{"one_per_second", median(one_rate)},
                                          {"one_cpu_us", median(one_cpu)},
                                          {"cluster_per_second", median(many_rate)},
                                          {"cluster_cpu_us", median(many_cpu)}};
    if (!json) {
      std::printf("%2d rules                              %15.0f %12.1f %22.0f %12.1f\n", rules,
                  median(one_rate), median(one_cpu), median(many_rate), median(many_cpu));
    }
  }
  if (json) std::printf("%s\n", out.dump().c_str());
  return 0;
}
