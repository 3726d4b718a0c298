#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "store/redis/circuit.h"
#include "store/redis/script.h"
#include "testing/lua_redis.h"

namespace weir::testing {

// The shipped script of shared breakers on a server in this process.
class CircuitRig {
 public:
  using Action = store::redis::CircuitAction;
  static constexpr const char* kKey = "weir:1:{!}circuit/payments";
  static constexpr const char* kChanges = "weir:1:{!}circuits";

  // Waits 1 s without jitter; two of three probes, one at a time, each within 400 ms; a round of 2
  // s; no ramp.
  static BreakerConfig config() {
    BreakerConfig config;
    config.open_wait = std::chrono::seconds(1);
    config.max_open_wait = std::chrono::seconds(8);
    config.probes = 3;
    config.probes_in_flight = 1;
    config.probe_successes = 2;
    config.probe_deadline = std::chrono::milliseconds(400);
    config.max_half_open = std::chrono::seconds(2);
    config.ramp.reset();
    return config;
  }

  explicit CircuitRig(const BreakerConfig& given = config()) : numbers(given) {}
  // A new world on the same server process, whose scripts stay compiled.
  void begin(const BreakerConfig& given) {
    numbers = given;
    redis.restart_with({});
    redis.set_now(Instant{std::chrono::seconds(1'700'000'000)});
  }

  store::redis::CircuitReply run(const Action& action) {
    std::vector<std::string> command{"EVAL", store::redis::kCircuitScript.text, "2", kKey,
                                     kChanges};
    for (std::string& argument : store::redis::circuit_arguments(action, numbers))
      command.push_back(std::move(argument));
    store::redis::ReplyReader reader;
    reader.feed(redis.execute(command));
    EXPECT_EQ(reader.next(), store::redis::ReplyReader::Next::reply);
    store::redis::CircuitReply reply;
    EXPECT_TRUE(store::redis::read_circuit(reader.reply(), reply)) << reader.reply().error();
    return reply;
  }
  store::redis::CircuitReply read() { return run({}); }
  store::redis::CircuitReply vote(std::uint64_t who, bool bad, Nanos wanted = Nanos(0)) {
    return run({.kind = Action::Kind::vote,
                .who = who,
                .epoch = read().record.epoch,
                .flag = bad ? Action::Flag::bad : Action::Flag::good,
                .lasts = std::chrono::seconds(10),
                .wanted = wanted});
  }
  store::redis::CircuitReply probe(std::uint64_t who) {
    return run({.kind = Action::Kind::probe, .who = who});
  }
  store::redis::CircuitReply settle(std::uint64_t who, const store::redis::CircuitReply& probe,
                                    Action::Flag flag) {
    return run({.kind = Action::Kind::settle,
                .who = who,
                .epoch = probe.record.epoch,
                .round = probe.record.round,
                .flag = flag,
                .probe = probe.probe});
  }
  store::redis::CircuitReply force(Action::Flag flag, Nanos lasts = Nanos(0)) {
    return run({.kind = Action::Kind::force, .flag = flag, .lasts = lasts});
  }
  // The bytes that are kept; empty without a record.
  std::string bytes() const {
    const auto at = redis.keys().find(kKey);
    return at == redis.keys().end() ? std::string() : std::get<std::string>(at->second.data);
  }
  std::optional<Instant> expires_at() const {
    const auto at = redis.keys().find(kKey);
    return at == redis.keys().end() ? std::nullopt : at->second.expires_at;
  }

  BreakerConfig numbers;
  LuaRedis redis;
};

}  // namespace weir::testing
