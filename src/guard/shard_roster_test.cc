#include "guard/shard_roster.h"

#include <gtest/gtest.h>

namespace weir::guard {
namespace {

using store::redis::ClusterMaster;
using store::redis::ClusterNode;
using store::redis::HostPort;
using store::redis::SlotMap;

SlotMap map_of(std::initializer_list<std::pair<const char*, std::uint16_t>> masters) {
  SlotMap map;
  for (const auto& [id, port] : masters) {
    map.masters.push_back({.node = {id, {"h", port}}, .replicas = {}});
  }
  return map;
}
using Places = std::vector<std::optional<std::size_t>>;

TEST(ShardRoster, KeepsAShardWithItsMasterThatMovedToAnotherAddress) {
  const ShardIdentity shards[] = {{.id = "a", .address = {"h", 1}, .active = true},
                                  {.id = "b", .address = {"h", 2}, .active = true}};
  EXPECT_EQ(assign_shards(shards, map_of({{"a", 2}, {"b", 1}})), (Places{0, 1}));
}

TEST(ShardRoster, GivesTheReplicaThatTookOverItsMastersShard) {
  const ShardIdentity shards[] = {
      {.id = "a", .address = {"h", 1}, .replicas = {"c"}, .active = true},
      {.id = "b", .address = {"h", 2}, .replicas = {"d", "e"}, .active = true}};
  EXPECT_EQ(assign_shards(shards, map_of({{"a", 1}, {"e", 5}})), (Places{0, 1}));
  EXPECT_EQ(assign_shards(shards, map_of({{"c", 3}, {"d", 4}})), (Places{0, 1}));
}

// Nobody had heard of it as a replica: a map holds none that is not in step.
TEST(ShardRoster, GivesWhoHasTheSlotsOfAMasterThatIsGoneItsShard) {
  const ShardIdentity shards[] = {
      {.id = "a", .address = {"h", 1}, .active = true, .highest_slot = 8'191},
      {.id = "b", .address = {"h", 2}, .active = true, .highest_slot = 16'383}};
  SlotMap map = map_of({{"x", 3}, {"a", 1}});
  map.masters[0].highest_slot = 16'383;
  map.masters[1].highest_slot = 8'191;
  EXPECT_EQ(assign_shards(shards, map), (Places{1, 0}));
  map.masters[0].highest_slot = 12'000;
  EXPECT_EQ(assign_shards(shards, map)[0], std::nullopt) << "of some of them it is another one";
}

// A replica that was given slots of its own takes nothing from a master that is still there.
TEST(ShardRoster, MakesANewShardForANewMaster) {
  const ShardIdentity shards[] = {
      {.id = "a", .address = {"h", 1}, .replicas = {"c"}, .active = true}};
  EXPECT_EQ(assign_shards(shards, map_of({{"a", 1}, {"c", 3}, {"x", 9}})),
            (Places{0, std::nullopt, std::nullopt}));
}

TEST(ShardRoster, KnowsANodeThatARedirectionNamed) {
  const ShardIdentity shards[] = {{.id = "a", .address = {"h", 1}, .active = true},
                                  {.id = "", .address = {"h", 9}}};
  EXPECT_EQ(assign_shards(shards, map_of({{"a", 1}, {"x", 9}})), (Places{0, 1}));
}

TEST(ShardRoster, UsesShardsAgainThatHaveNoMaster) {
  const ShardIdentity shards[] = {{.id = "a", .address = {"h", 1}, .active = true},
                                  {.id = "old", .address = {"h", 7}},
                                  {.id = "", .address = {}}};
  EXPECT_EQ(assign_shards(shards, map_of({{"a", 1}, {"x", 8}, {"y", 9}, {"z", 10}})),
            (Places{0, 1, 2, std::nullopt}));
}

}  // namespace
}  // namespace weir::guard
