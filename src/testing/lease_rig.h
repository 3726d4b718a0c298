#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "store/redis/lease.h"
#include "store/redis/script.h"
#include "testing/lua_redis.h"

namespace weir::testing {

// The shipped script of shared concurrency limits on a server in this process.
class LeaseRig {
 public:
  using Action = store::redis::LeaseAction;
  using Reply = store::redis::LeaseReply;
  static constexpr const char* kKey = "weir:1:{aaaaaa}reports";

  // Two units, leases of a second, held for three at the longest.
  static ConcurrencyConfig config() {
    return {.limit = 2, .lease = std::chrono::seconds(1), .max_hold = std::chrono::seconds(3)};
  }

  explicit LeaseRig(const ConcurrencyConfig& given = config()) : numbers(given) {}
  // A new world on the same server process, whose scripts stay compiled.
  void begin(const ConcurrencyConfig& given) {
    numbers = given;
    redis.restart_with({});
    redis.set_now(Instant{std::chrono::seconds(1'700'000'000)});
  }

  Reply run(const Action& action) {
    store::redis::StoreCall call = store::redis::lease_call(action, numbers, kKey);
    std::vector<std::string> command{"EVAL", call.script->text, std::to_string(call.keys.size())};
    for (std::string& key : call.keys) command.push_back(std::move(key));
    for (std::string& argument : call.arguments) command.push_back(std::move(argument));
    store::redis::ReplyReader reader;
    reader.feed(redis.execute(command));
    EXPECT_EQ(reader.next(), store::redis::ReplyReader::Next::reply);
    Reply reply;
    EXPECT_TRUE(store::redis::read_lease(reader.reply(), reply)) << reader.reply().error();
    return reply;
  }
  Reply acquire(const std::string& id, std::uint32_t weight = 1) {
    return run({.kind = Action::Kind::acquire, .id = id, .weight = weight});
  }
  Reply renew(const std::string& id) { return run({.kind = Action::Kind::renew, .id = id}); }
  Reply release(const std::string& id) { return run({.kind = Action::Kind::release, .id = id}); }

  // Ids that the hash holds.
  std::size_t stored() const {
    const auto at = redis.keys().find(kKey);
    if (at == redis.keys().end()) return 0;
    const auto& hash = std::get<std::map<std::string, std::string>>(at->second.data);
    return hash.size() - hash.count("#");
  }

  ConcurrencyConfig numbers;
  LuaRedis redis;
};

}  // namespace weir::testing
