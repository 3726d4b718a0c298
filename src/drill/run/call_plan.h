#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "drill/load/http_load.h"
#include "drill/run/tally.h"
#include "drill/scenario/scenario.h"
#include "policy/model.h"

namespace weir::drill {

// Who asks what, and when: clients of each kind on each route, each at a pace of its own.
class CallPlan {
 public:
  struct Options {
    std::size_t routes = 1;
    std::uint32_t clients =
        12;                   // of each route; the first is hostile, then one of each kind in turn
    double rate = 50;         // calls a second of each route, of all its clients together
    double hostility = 20;    // so many times as often as another does the hostile one ask
    bool all_steady = false;  // but for the hostile one
    std::uint64_t seed = 1;
  };
  // The request of a client, head and body.
  using Request =
      std::function<std::string(std::size_t route, std::uint32_t client, std::size_t phase)>;

  CallPlan(const Scenario& scenario, const Options& options, Request request);

  void begin(MonoTime at);
  // See HttpLoad::Next.
  bool next(HttpLoad::Call& call);
  // Of those that were turned away some come back.
  void take(const HttpOutcome& outcome);

  ClientKind kind_of(std::uint32_t client) const noexcept;
  static std::size_t route_of(std::uint64_t tag) noexcept { return tag >> 40U; }
  static std::uint32_t client_of(std::uint64_t tag) noexcept { return tag & 0xffff'ffffU; }

 private:
  static constexpr std::uint32_t kBurst = 8;
  static constexpr std::uint32_t kRetries = 2;

  struct Due {
    MonoTime at{};
    std::uint64_t tag = 0;
    std::uint32_t left = 1;  // of a burst
    bool operator>(const Due& other) const noexcept { return at > other.at; }
  };

  static std::uint32_t attempt_of(std::uint64_t tag) noexcept { return tag >> 32U & 0xffU; }
  std::size_t phase_at(MonoTime at) const;
  void follow(Due due);

  const Scenario& scenario_;
  const Options options_;
  const Request request_;
  std::mt19937_64 random_;
  MonoTime begin_{};
  MonoTime end_{};
  MonoTime last_{};
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
};

// What client number `client` gives for a source.
std::string value_of(const std::string& source, std::uint32_t client);

}  // namespace weir::drill
