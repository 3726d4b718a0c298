#include "store/redis/topology/sentinel_watch.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "testing/manual_clock.h"
#include "testing/resp_commands.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using testing::bulk;

// One way to a sentinel that nothing passes over until the test says so.
class SentinelWay final : public Wire {
 public:
  void bind(Events* events) override { events_ = events; }
  void open() override {
    ++opens;
    standing = true;
  }
  void close() override { standing = false; }
  void send(std::string& bytes) override {
    commands_.feed(bytes);
    bytes.clear();
  }
  void flush_soon() override {}
  void wake_at(MonoTime when) override { wake = when; }

  Events& events() { return *events_; }
  std::optional<std::vector<std::string>> next_command() { return commands_.next(); }

  int opens = 0;
  bool standing = false;
  std::optional<MonoTime> wake;

 private:
  Events* events_ = nullptr;
  testing::RespCommands commands_;
};

// What a sentinel is and says.
struct Sentinel {
  SentinelWay asks;
  SentinelWay listens;
  bool alive = true;
  std::string password;  // empty: it wants none
  std::string master = "main";
  HostPort address{"10.0.0.1", 6379};
  std::uint64_t epoch = 1;
  int connected = 0;
  bool opened = false;
  bool let_in = false;
  std::vector<std::vector<std::string>> heard;

  std::string reply(const std::vector<std::string>& command) {
    heard.push_back(command);
    if (command[0] == "AUTH") {
      let_in = command.back() == password;
      return let_in ? "+OK\r\n" : "-WRONGPASS invalid username-password pair\r\n";
    }
    if (!password.empty() && !let_in) return "-NOAUTH Authentication required.\r\n";
    if (command[0] == "SUBSCRIBE")
      return "*3\r\n" + bulk("subscribe") + bulk(command[1]) + ":1\r\n";
    const bool known = command.back() == master;
    if (command[1] == "MASTER") {
      if (!known) return "-ERR No such master with that name\r\n";
      return "*6\r\n" + bulk("name") + bulk(master) + bulk("flags") + bulk("master") +
             bulk("config-epoch") + bulk(std::to_string(epoch));
    }
    if (!known) return "*-1\r\n";
    return "*2\r\n" + bulk(address.host) + bulk(std::to_string(address.port));
  }
};

class SentinelStage : public ::testing::Test, public Locator::Listener {
 protected:
  void begin(std::size_t count, std::function<Result<Credentials>()> credentials = {}) {
    std::vector<SentinelWatch::Sentinel> all;
    for (std::size_t i = 0; i < count; ++i) {
      Sentinel& sentinel = sentinels.emplace_back();
      all.push_back({"s" + std::to_string(i), sentinel.asks, sentinel.listens});
    }
    watch = std::make_unique<SentinelWatch>(
        SentinelWatch::Options{.master = "main", .credentials = std::move(credentials)}, all,
        clock);
    watch->bind(this);
  }
  // Everything that can pass over the ways does.
  void pass(SentinelWay& way, Sentinel& sentinel) {
    while (way.standing && sentinel.alive) {
      if (way.opens > opened[&way]) {
        opened[&way] = way.opens;
        sentinel.let_in = false;
        way.events().on_open();
      }
      const auto command = way.next_command();
      if (!command) return;
      way.events().on_bytes(sentinel.reply(*command));
    }
  }
  void settle() {
    for (int i = 0; i < 3; ++i) {
      for (Sentinel& sentinel : sentinels) {
        pass(sentinel.asks, sentinel);
        pass(sentinel.listens, sentinel);
      }
    }
  }
  void die(Sentinel& sentinel) {
    sentinel.alive = false;
    for (SentinelWay* way : {&sentinel.asks, &sentinel.listens}) {
      if (way->standing) way->events().on_closed(LocalFault::eof);
    }
  }
  void advance(Nanos by) {
    clock.advance(by);
    for (Sentinel& sentinel : sentinels) {
      for (SentinelWay* way : {&sentinel.asks, &sentinel.listens}) {
        if (way->wake && *way->wake <= clock.mono()) {
          way->wake.reset();
          way->events().on_wake();
        }
      }
    }
    settle();
  }
  void hint(Sentinel& sentinel, const std::string& master) {
    sentinel.listens.events().on_bytes("*3\r\n" + bulk("message") + bulk("+switch-master") +
                                       bulk(master + " 10.0.0.1 6379 10.0.0.2 6379"));
    settle();
  }

  void on_located(const HostPort& where) override { said.push_back(where.text()); }
  void on_not_located(LocalFault why, const std::string& text) override {
    said.push_back(std::string(row_of(why).pattern) + " " + text);
  }
  void on_moved() override { said.push_back("moved"); }

  std::vector<std::string> heard_now() { return std::exchange(said, {}); }
  using Said = std::vector<std::string>;

  testing::ManualClock clock;
  std::deque<Sentinel> sentinels;
  std::map<SentinelWay*, int> opened;
  std::vector<std::string> said;
  std::unique_ptr<SentinelWatch> watch;
};

using SentinelWatchTest = SentinelStage;

TEST_F(SentinelWatchTest, LocatesAsSoonAsMostHaveAnswered) {
  begin(3);
  watch->locate();
  pass(sentinels[0].asks, sentinels[0]);
  EXPECT_EQ(heard_now(), Said{});
  pass(sentinels[2].asks, sentinels[2]);
  EXPECT_EQ(heard_now(), Said{"10.0.0.1:6379"});
  settle();
  EXPECT_EQ(heard_now(), Said{}) << "said once";
}

TEST_F(SentinelWatchTest, BelievesTheNewestConfigurationAndNotTheOneThatIsCutOff) {
  begin(3);
  sentinels[1].address = sentinels[2].address = {"10.0.0.2", 6379};
  sentinels[1].epoch = sentinels[2].epoch = 2;
  watch->locate();
  settle();
  EXPECT_EQ(heard_now(), Said{"10.0.0.2:6379"});
  // Then only the one that is behind can be reached: nothing moves back because of it.
  die(sentinels[1]);
  die(sentinels[2]);
  advance(2s);
  EXPECT_EQ(heard_now(), Said{});
}

TEST_F(SentinelWatchTest, SurvivesTheLossOfSentinels) {
  begin(3);
  watch->locate();
  settle();
  EXPECT_EQ(heard_now(), Said{"10.0.0.1:6379"});
  die(sentinels[0]);
  die(sentinels[1]);
  watch->locate();
  settle();
  EXPECT_EQ(heard_now(), Said{"10.0.0.1:6379"}) << "nobody waits for those known to be away";
  // And from the beginning, where they are silent: after the patience for one.
  begin(0);
  sentinels.clear();
  opened.clear();
  begin(3);
  sentinels[0].alive = sentinels[1].alive = false;
  watch->locate();
  settle();
  EXPECT_EQ(heard_now(), Said{});
  advance(100ms);
  EXPECT_EQ(heard_now(), Said{"10.0.0.1:6379"});
}

TEST_F(SentinelWatchTest, SaysWhyNobodyCouldSay) {
  begin(2);
  watch->locate();
  sentinels[0].asks.events().on_closed(LocalFault::refused);
  sentinels[1].asks.events().on_closed(LocalFault::dns);
  EXPECT_EQ(heard_now(), Said{"(no sentinel) s0: nothing listens there; s1: no such name now"});
}

TEST_F(SentinelWatchTest, NamesTheMasterThatNoSentinelKnows) {
  begin(2);
  sentinels[0].master = "other";
  sentinels[1].alive = false;
  watch->locate();
  settle();
  EXPECT_EQ(heard_now(), Said{});
  advance(100ms);
  EXPECT_EQ(heard_now(),
            Said{"(unknown master) s0: knows no master named 'main'; s1: no connection "
                 "within connect_timeout"});
}

TEST_F(SentinelWatchTest, TakesAHintForNoMoreThanAHint) {
  begin(3);
  watch->locate();
  settle();
  EXPECT_EQ(heard_now(), Said{"10.0.0.1:6379"});
  hint(sentinels[0], "main");
  EXPECT_EQ(heard_now(), Said{}) << "asked, they still say the same";
  for (Sentinel& sentinel : sentinels) {
    sentinel.address = {"10.0.0.2", 6379};
    sentinel.epoch = 2;
  }
  hint(sentinels[0], "mainland");
  EXPECT_EQ(heard_now(), Said{}) << "another master";
  hint(sentinels[0], "main");
  EXPECT_EQ(heard_now(), Said{"moved"});
  watch->locate();
  settle();
  EXPECT_EQ(heard_now(), Said{"10.0.0.2:6379"});
}

TEST_F(SentinelWatchTest, FindsOutWithoutAHintByAskingEverySecond) {
  begin(3);
  watch->locate();
  settle();
  EXPECT_EQ(heard_now(), Said{"10.0.0.1:6379"});
  sentinels[1].address = {"10.0.0.2", 6379};
  sentinels[1].epoch = 2;
  advance(1s);
  EXPECT_EQ(heard_now(), Said{"moved"}) << "one that knows of a newer configuration is enough";
}

TEST_F(SentinelWatchTest, SaysThatAMasterCanBeFoundAgain) {
  begin(1);
  watch->locate();
  sentinels[0].asks.events().on_closed(LocalFault::refused);
  ASSERT_EQ(heard_now().size(), 1U);
  advance(200ms);
  EXPECT_EQ(heard_now(), Said{"moved"});
}

TEST_F(SentinelWatchTest, BelievesMostOfThoseThatWereSetUpAnew) {
  begin(3);
  for (Sentinel& sentinel : sentinels) sentinel.epoch = 7;
  watch->locate();
  settle();
  ASSERT_EQ(heard_now(), Said{"10.0.0.1:6379"});
  for (Sentinel& sentinel : sentinels) {
    sentinel.address = {"10.0.0.9", 6379};
    sentinel.epoch = 0;
  }
  advance(1s);
  EXPECT_EQ(heard_now(), Said{"moved"});
}

TEST_F(SentinelWatchTest, SendsAPasswordOnlyToASentinelThatAsksForOne) {
  begin(2, [] { return Credentials{"", "pw"}; });
  sentinels[1].password = "pw";
  watch->locate();
  settle();
  EXPECT_EQ(heard_now(), Said{"10.0.0.1:6379"});
  for (const auto& command : sentinels[0].heard) EXPECT_NE(command[0], "AUTH");
  EXPECT_EQ(sentinels[1].heard[1][0], "SENTINEL");
  EXPECT_EQ(sentinels[1].heard[2], (std::vector<std::string>{"AUTH", "pw"}));
}

TEST_F(SentinelWatchTest, SaysThatAPasswordWasRefused) {
  begin(1, [] { return Credentials{"", "old"}; });
  sentinels[0].password = "new";
  watch->locate();
  settle();
  EXPECT_EQ(heard_now(), Said{"(not let in) s0: WRONGPASS invalid username-password pair"});
}

// A plain server under a sentinel's URL; one that says nonsense; one that says nothing.
TEST_F(SentinelWatchTest, KnowsWhatIsNoSentinel) {
  begin(1);
  watch->locate();
  sentinels[0].asks.events().on_open();
  sentinels[0].asks.events().on_bytes("-ERR unknown command 'SENTINEL'\r\n");
  EXPECT_EQ(heard_now(), Said{"(not let in) s0: ERR unknown command 'SENTINEL'"});

  watch->locate();
  sentinels[0].asks.events().on_open();
  sentinels[0].asks.events().on_bytes("HTTP/1.1 400 Bad Request\r\n\r\n");
  EXPECT_EQ(heard_now(), Said{"(no sentinel) s0: nil, wrong type, wrong arity, not RESP"});

  watch->locate();
  sentinels[0].asks.events().on_open();
  sentinels[0].asks.events().on_bytes(":1\r\n$2\r\nno\r\n");
  EXPECT_EQ(heard_now(), Said{"(no sentinel) s0: does not answer as a sentinel does"});

  watch->locate();
  sentinels[0].alive = false;
  advance(100ms);
  EXPECT_EQ(heard_now(), Said{"(no sentinel) s0: our own deadline passed without a reply"});
}

}  // namespace
}  // namespace weir::store::redis
