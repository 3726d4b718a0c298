#include "store/redis/topology/cluster_watch.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <set>

#include "testing/manual_clock.h"
#include "testing/resp_commands.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using testing::bulk;

// What a node says of its cluster: who owns all slots.
struct Node {
  bool alive = true;
  bool ok = true;
  std::uint64_t epoch = 1;
  std::uint16_t owner = 1;
  int last_slot = 16'383;
  std::vector<std::uint16_t> replicas;
  std::string slots_error;
  int asked = 0;

  std::string reply(const std::vector<std::string>& command) {
    if (command[1] == "INFO") {
      return bulk(std::string("cluster_state:") + (ok ? "ok" : "fail") +
                  "\r\ncluster_current_epoch:" + std::to_string(epoch) + "\r\n");
    }
    ++asked;
    if (!slots_error.empty()) return slots_error;
    std::string out = "*1\r\n*" + std::to_string(3 + replicas.size()) +
                      "\r\n:0\r\n:" + std::to_string(last_slot) + "\r\n";
    out += node(owner);
    for (const std::uint16_t replica : replicas) out += node(replica);
    return out;
  }
  static std::string node(std::uint16_t port) {
    return "*3\r\n" + bulk("h") + ':' + std::to_string(port) + "\r\n" +
           bulk("id" + std::to_string(port));
  }
};

class Way final : public AimedWire {
 public:
  explicit Way(std::map<std::uint16_t, Node>& nodes) : nodes_(nodes) {}

  void aim(Endpoint endpoint) override { at = endpoint.port; }
  void bind(Events* events) override { events_ = events; }
  void open() override { opening_ = standing_ = true; }
  void close() override { opening_ = standing_ = false; }
  void send(std::string& bytes) override {
    commands_.feed(bytes);
    bytes.clear();
  }
  void flush_soon() override {}
  void wake_at(MonoTime when) override { wake = when; }

  // What can pass does. Whether anything did.
  bool pass() {
    if (!standing_) return false;
    Node& node = nodes_[at];
    if (!node.alive) {
      events_->on_closed(LocalFault::refused);
      return true;
    }
    if (std::exchange(opening_, false)) {
      commands_ = {};
      events_->on_open();
      return true;
    }
    const auto command = commands_.next();
    if (!command) return false;
    events_->on_bytes(node.reply(*command));
    return true;
  }
  void wake_up() { events_->on_wake(); }

  std::uint16_t at = 0;
  std::optional<MonoTime> wake;

 private:
  std::map<std::uint16_t, Node>& nodes_;
  Events* events_ = nullptr;
  testing::RespCommands commands_;
  bool opening_ = false;
  bool standing_ = false;
};

class ClusterWatchTest : public ::testing::Test, public ClusterWatch::Listener {
 protected:
  void begin(std::vector<std::uint16_t> seeds) {
    ClusterWatch::Options options{.seeds = {}, .credentials = {}};
    for (const std::uint16_t port : seeds) options.seeds.push_back({"h", port});
    watch = std::make_unique<ClusterWatch>(
        options,
        [this] {
          auto way = std::make_unique<Way>(nodes);
          ways.push_back(way.get());
          return way;
        },
        [](const HostPort& where) {
          return Endpoint{where.host, where.port, {}, {}};
        },
        clock, *this);
    watch->start();
    settle();
  }
  void settle() {
    for (int turns = 0; turns < 1'000; ++turns) {
      bool passed = false;
      for (Way* way : ways) passed |= way->pass();
      if (!passed) return;
    }
    FAIL() << "it never rests";
  }
  void advance(Nanos by) {
    for (const MonoTime end = clock.mono() + by; clock.mono() < end;) {
      clock.advance(10ms);
      for (Way* way : ways) {
        if (!way->wake || *way->wake > clock.mono()) continue;
        way->wake.reset();
        way->wake_up();
      }
      settle();
    }
  }

  void on_map(const SlotMap& map) override {
    owners.push_back(map.masters[map.owner[0]].node.address.port);
  }
  void on_same_map() override { ++same_maps; }
  void on_no_map(LocalFault why, const std::string& text) override {
    troubles.push_back(std::string(row_of(why).pattern) + " " + text);
  }
  using Owners = std::vector<std::uint16_t>;

  testing::ManualClock clock;
  std::map<std::uint16_t, Node> nodes;
  std::vector<Way*> ways;
  Owners owners;
  std::vector<std::string> troubles;
  int same_maps = 0;
  std::unique_ptr<ClusterWatch> watch;
};

TEST_F(ClusterWatchTest, ReadsTheMapOnceFromWhateverNodeIsThere) {
  nodes[2].alive = nodes[3].alive = false;
  begin({2, 3, 1});
  advance(1s);
  EXPECT_EQ(owners, Owners{1});
  EXPECT_TRUE(troubles.empty());
}

TEST_F(ClusterWatchTest, FindsNodesThatTheUrlDoesNotName) {
  nodes[1].replicas = {5, 6};
  begin({1});
  EXPECT_EQ(owners, Owners{1});
  // All that the URL names is gone; a replica took over.
  for (const std::uint16_t port : std::initializer_list<std::uint16_t>{5, 6}) {
    nodes[port].owner = 5;
    nodes[port].epoch = 2;
  }
  nodes[1].alive = false;
  advance(5s);
  EXPECT_EQ(owners, (Owners{1, 5}));
}

TEST_F(ClusterWatchTest, ComesBackToTheUrlWhenAllItKnowsIsGone) {
  nodes[1].owner = 7;
  nodes[7].owner = 7;
  begin({1});
  EXPECT_EQ(owners, Owners{7});
  nodes[1].alive = nodes[7].alive = false;
  advance(3s);
  ASSERT_FALSE(troubles.empty());
  EXPECT_EQ(troubles[0].substr(0, 13), "(no slot map)");
  nodes[1].alive = true;
  nodes[1].owner = 9;
  nodes[1].epoch = 3;
  advance(5s);
  EXPECT_EQ(owners, (Owners{7, 9}));
}

TEST_F(ClusterWatchTest, BelievesTheNewestConfiguration) {
  nodes[2].owner = 2;
  nodes[2].epoch = 2;
  nodes[3].owner = 2;
  nodes[3].epoch = 2;
  begin({1, 2, 3});  // the first one is behind
  EXPECT_EQ(owners.back(), 2);
  const std::size_t maps = owners.size();
  advance(5s);
  EXPECT_EQ(owners.size(), maps) << "and does not go back and forth";
}

// One that has heard that a master is none any more, and not yet who has its slots.
TEST_F(ClusterWatchTest, BelievesANodeThatKnowsTheOwnersOfMoreSlots) {
  begin({1, 2, 3});
  const std::size_t maps = owners.size();
  for (auto& [port, behind] : nodes) {
    behind.last_slot = 10'000;
    advance(5s);
    behind.last_slot = 16'383;
  }
  EXPECT_EQ(owners.size(), maps);
  for (auto& [port, node] : nodes) node.last_slot = 10'000;
  advance(5s);
  EXPECT_EQ(owners.size(), maps + 1) << "where all say so it is so";
}

TEST_F(ClusterWatchTest, BelievesANodeThatServesBeforeOneThatDoesNot) {
  nodes[1].ok = false;  // alone on its side of a cut
  nodes[1].epoch = 9;   // where it counts by itself
  nodes[2].owner = nodes[3].owner = 2;
  begin({1, 2, 3});
  advance(5s);
  EXPECT_EQ(owners.back(), 2);
}

// Whoever went by a redirection meanwhile learns that the map is still what it was.
TEST_F(ClusterWatchTest, SaysThatItIsTheSame) {
  begin({1, 2, 3});
  const std::size_t maps = owners.size();
  const int same = same_maps;
  watch->refresh();
  settle();
  EXPECT_EQ(owners.size(), maps);
  EXPECT_GT(same_maps, same);
}

TEST_F(ClusterWatchTest, ReadsItAgainWhenToldTo) {
  begin({1, 2, 3});
  const int asked = nodes[1].asked + nodes[2].asked + nodes[3].asked;
  watch->refresh();
  settle();
  EXPECT_EQ(nodes[1].asked + nodes[2].asked + nodes[3].asked, asked + 3);
}

TEST_F(ClusterWatchTest, AsksEachNodeAboutOnceASecondAndNotMore) {
  begin({1, 2, 3});
  advance(10s);
  for (const std::uint16_t port : std::initializer_list<std::uint16_t>{1, 2, 3}) {
    EXPECT_GE(nodes[port].asked, 10);
    EXPECT_LE(nodes[port].asked, 15);
  }
}

TEST_F(ClusterWatchTest, SaysThatThereIsNoCluster) {
  nodes[1].slots_error = "-ERR This instance has cluster support disabled\r\n";
  begin({1});
  EXPECT_EQ(troubles, (std::vector<std::string>{
                          "(no cluster) h:1: ERR This instance has cluster support disabled"}));
  EXPECT_TRUE(owners.empty());
}

TEST_F(ClusterWatchTest, SaysThatItIsNotLetIn) {
  for (const std::uint16_t port : std::initializer_list<std::uint16_t>{1, 2}) {
    nodes[port].slots_error = "-NOPERM this user has no permissions to run 'cluster|slots'\r\n";
  }
  begin({1, 2});
  ASSERT_FALSE(troubles.empty());
  EXPECT_EQ(troubles[0].substr(0, 12), "(not let in)");
}

TEST_F(ClusterWatchTest, SurvivesWhatIsNoMap) {
  nodes[1].slots_error = "*1\r\n:1\r\n";
  nodes[2].slots_error = "-NOPERM this user has no permissions\r\n";
  nodes[3].slots_error = "!what\r\n";
  begin({1, 2, 3});
  advance(3s);
  EXPECT_TRUE(owners.empty());
  ASSERT_FALSE(troubles.empty());
  for (auto& [port, node] : nodes) node.slots_error.clear();
  advance(5s);
  EXPECT_EQ(owners, Owners{1});
}

}  // namespace
}  // namespace weir::store::redis
