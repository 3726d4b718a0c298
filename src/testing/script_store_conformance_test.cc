#include "testing/script_store.h"

#include "testing/lua_redis.h"
#include "testing/redis_server.h"
#include "testing/store_conformance.h"

namespace weir::testing {
namespace {

std::unique_ptr<store::LocalStore> in_process() {
  auto redis = std::make_shared<LuaRedis>();
  return std::make_unique<ScriptStore>(
      [redis](const std::vector<std::string>& command, Instant now) {
        redis->set_now(now);
        return redis->execute(command);
      });
}

std::unique_ptr<store::LocalStore> real_server() {
  static RedisServer server;
  server.execute({"FLUSHALL"});
  auto connection = std::make_shared<RedisConnection>(server.port());
  return std::make_unique<ScriptStore>(
      [connection](const std::vector<std::string>& command, Instant) {
        return connection->execute(command);
      });
}

INSTANTIATE_TEST_SUITE_P(Scripts, StoreConformance,
                         ::testing::Values(StoreUnderTest{"Lua", in_process},
                                           StoreUnderTest{"Redis", real_server}),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace weir::testing
