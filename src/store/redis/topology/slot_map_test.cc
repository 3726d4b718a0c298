#include "store/redis/topology/slot_map.h"

#include <gtest/gtest.h>

#include "testing/resp_commands.h"

namespace weir::store::redis {
namespace {

using testing::bulk;

std::string array(std::initializer_list<std::string> elements) {
  std::string out = '*' + std::to_string(elements.size()) + "\r\n";
  for (const std::string& element : elements) out += element;
  return out;
}
std::string number(std::int64_t value) {
  return ':' + std::to_string(value) + "\r\n";
}
const std::string kNil = "$-1\r\n";

std::string node(const std::string& host, std::int64_t port, const std::string& id) {
  return array({bulk(host), number(port), bulk(id)});
}

std::optional<SlotMap> read(const std::string& bytes) {
  ReplyReader reader;
  reader.feed(bytes);
  if (reader.next() != ReplyReader::Next::reply) return std::nullopt;
  return read_slots(reader.reply(), {"10.0.0.9", 7000});
}

TEST(SlotMap, IsReadFromWhatANodeSays) {
  const auto map = read(array({
      array({number(5461), number(16383), node("10.0.0.2", 7001, "bbb"),
             node("10.0.0.4", 7003, "ddd")}),
      array(
          {number(0), number(5460), node("10.0.0.1", 7000, "aaa"), node("10.0.0.3", 7002, "ccc")}),
  }));
  ASSERT_TRUE(map);
  ASSERT_EQ(map->masters.size(), 2U);
  EXPECT_EQ(map->masters[0].node, (ClusterNode{"aaa", {"10.0.0.1", 7000}}));
  EXPECT_EQ(map->masters[0].replicas, (std::vector<ClusterNode>{{"ccc", {"10.0.0.3", 7002}}}));
  EXPECT_EQ(map->masters[0].highest_slot, 5460);
  EXPECT_EQ(map->masters[1].highest_slot, 16383);
  EXPECT_EQ(map->masters[0].slots + map->masters[1].slots, kSlots);
  EXPECT_EQ(map->owner[0], 0);
  EXPECT_EQ(map->owner[5460], 0);
  EXPECT_EQ(map->owner[5461], 1);
  EXPECT_EQ(map->owner[16383], 1);
}

// One master has several ranges, some slots have none, and the order says nothing.
TEST(SlotMap, PutsTogetherWhatIsInPieces) {
  const std::string a = node("h", 1, "a");
  const std::string b = node("h", 2, "b");
  const auto one = read(array({array({number(0), number(9), a}), array({number(20), number(29), a}),
                               array({number(10), number(19), b})}));
  const auto other =
      read(array({array({number(10), number(19), b}), array({number(20), number(29), a}),
                  array({number(0), number(9), a})}));
  ASSERT_TRUE(one);
  EXPECT_EQ(one, other);
  EXPECT_EQ(one->masters[0].slots, 20U);
  EXPECT_EQ(one->masters[0].highest_slot, 29);
  EXPECT_EQ(one->owner[30], SlotMap::kNobody);
}

TEST(SlotMap, PassesOverWhatNewerServersAdd) {
  const std::string newer =
      array({bulk("10.0.0.1"), number(7000), bulk("aaa"),
             array({bulk("hostname"), bulk("n1"), bulk("deep"), array({number(1), array({})})}),
             bulk("zone")});
  const auto map = read(array({array({number(0), number(16383), newer, newer})}));
  ASSERT_TRUE(map);
  EXPECT_EQ(map->masters[0].node, (ClusterNode{"aaa", {"10.0.0.1", 7000}}));
  EXPECT_EQ(map->masters[0].replicas.size(), 1U);
}

TEST(SlotMap, TakesTheHostThatWasAskedWhereNoneIsSaid) {
  const auto map =
      read(array({array({number(0), number(1), array({kNil, number(7001), bulk("a")})}),
                  array({number(2), number(3), node("2001:db8::1", 7002, "b")}),
                  array({number(4), number(5), node("", 7003, "c")})}));
  ASSERT_TRUE(map);
  EXPECT_EQ(map->masters[0].node.address.text(), "10.0.0.9:7001");
  EXPECT_EQ(map->masters[1].node.address.text(), "[2001:db8::1]:7002");
  EXPECT_EQ(map->masters[2].node.address.text(), "10.0.0.9:7003");
}

TEST(SlotMap, LeavesOutWhatHasNoAddress) {
  const auto map =
      read(array({array({number(0), number(1), node("?", 7001, "a"), node("h", 1, "r")}),
                  array({number(2), number(3), node("?", 7001, "c")}),
                  array({number(4), number(5), node("h", 0, "d")}),
                  array({number(6), number(7), node("h", 7002, "b"), node("", 0, "e")})}));
  ASSERT_TRUE(map);
  ASSERT_EQ(map->masters.size(), 1U);
  EXPECT_EQ(map->masters[0].node.id, "b");
  EXPECT_TRUE(map->masters[0].replicas.empty());
  EXPECT_EQ(map->owner[0], SlotMap::kNobody);
}

TEST(SlotMap, IsNotMadeOfNonsense) {
  const std::string a = node("h", 1, "a");
  const std::string b = node("h", 2, "b");
  for (const std::string& bytes :
       {std::string("+OK\r\n"), kNil, number(1), array({number(1)}), array({array({number(0)})}),
        array({array({number(0), bulk("x"), a})}), array({array({number(-1), number(5), a})}),
        array({array({number(5), number(4), a})}), array({array({number(0), number(16384), a})}),
        array({array({number(0), number(1), bulk("a")})}),
        array({array({number(0), number(1), array({bulk("h")})})}),
        array({array({number(0), number(1), array({bulk("h"), bulk("p"), bulk("i")})})}),
        array({array({number(0), number(5), a}), array({number(5), number(6), b})})}) {
    EXPECT_FALSE(read(bytes)) << bytes;
  }
  EXPECT_TRUE(read(array({}))) << "a cluster before it has slots";
}

TEST(ClusterHealth, IsReadFromItsInfo) {
  const auto health = [](std::string_view text) {
    ReplyReader reader;
    reader.feed(bulk(text));
    reader.next();
    return read_cluster_info(reader.reply());
  };
  const auto good =
      health("cluster_state:ok\r\ncluster_slots_ok:1\r\ncluster_current_epoch:12\r\n");
  ASSERT_TRUE(good);
  EXPECT_TRUE(good->ok);
  EXPECT_EQ(good->epoch, 12U);
  EXPECT_FALSE(health("cluster_state:fail\n")->ok);
  EXPECT_FALSE(health("hello"));
}

TEST(Redirect, IsReadFromTheError) {
  const auto moved = read_redirect("MOVED 3999 127.0.0.1:6381");
  ASSERT_TRUE(moved);
  EXPECT_FALSE(moved->asking);
  EXPECT_EQ(moved->slot, 3999);
  EXPECT_EQ(moved->where.text(), "127.0.0.1:6381");
  const auto ask = read_redirect("ASK 16383 2001:db8::1:6381");
  ASSERT_TRUE(ask);
  EXPECT_TRUE(ask->asking);
  EXPECT_EQ(ask->where.text(), "[2001:db8::1]:6381");
  EXPECT_EQ(read_redirect("MOVED 1 :6381")->where.host, "");
  for (const char* text :
       {"MOVED", "MOVED 1", "MOVED x h:1", "MOVED 16384 h:1", "MOVED 1 h:0", "MOVED 1 h",
        "MOVED 1 ?:6381", "ASK 1 ?:6381", "ASKING 1 h:1", "ERR MOVED 1 h:1"}) {
    EXPECT_FALSE(read_redirect(text)) << text;
  }
}

}  // namespace
}  // namespace weir::store::redis
