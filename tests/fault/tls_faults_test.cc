// A Guard on a Cluster, and under Sentinels, that speak TLS: with the certificate that is trusted,
// and through the loss of a master.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "fault_rig.h"
#include "guard/impl.h"
#include "store/redis/topology/key_slot.h"
#include "testing/redis_cluster.h"
#include "testing/test_certificate.h"

namespace weir::fault {
namespace {

using testing::RedisCluster;
using testing::RedisServer;
using testing::TestCertificate;

class GuardOverTls : public ::testing::Test {
 protected:
  GuardOverTls()
      : folder_(std::filesystem::canonical(::testing::TempDir()) /
                ("weir_topology_tls_" + std::to_string(::getpid()))),
        authority_("authority"),
        server_("redis", &authority_),
        client_("weir", &authority_),
        stranger_("stranger") {
    std::filesystem::create_directories(folder_);
    authority_.write(path("ca.pem"), path("ca.key"));
    server_.write(path("server.pem"), path("server.key"));
    client_.write(path("client.pem"), path("client.key"));
    stranger_.write(path("other.pem"), path("other.key"));
  }
  ~GuardOverTls() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  // Of a server, whose clients must show a certificate.
  std::vector<std::string> files() const {
    return {"--tls-cert-file",    path("server.pem"), "--tls-key-file",     path("server.key"),
            "--tls-ca-cert-file", path("ca.pem"),     "--tls-auth-clients", "yes"};
  }
  PolicyOptions on(const std::string& url, const std::string& ca = "ca.pem") const {
    return {.url = url,
            .deadline = "2s",
            .store = "  tls: {ca: " + path(ca) + ", cert: " + path("client.pem") +
                     ", key: " + path("client.key") + "}\n"};
  }
  Guard open(const PolicyOptions& options) {
    return Guard::open(policy_on(0, options), {.observer = &heard_}).value();
  }

  std::filesystem::path folder_;
  TestCertificate authority_;
  TestCertificate server_;
  TestCertificate client_;
  TestCertificate stranger_;
  Heard heard_;
};

TEST_F(GuardOverTls, CountsOnEveryMasterOfAClusterAndFollowsAMovedSlot) {
  RedisCluster cluster({.tls = files()});
  Guard guard = open(on(cluster.url()));
  Guard other = open(on(cluster.url()));
  for (int user = 0; user < 24; ++user) {
    int allowed = 0;
    Tally tally;
    for (int i = 0; i < 4; ++i) {
      for (Guard* each : {&guard, &other}) {
        allowed += check(*each, "login", "u" + std::to_string(user), tally).allowed() ? 1 : 0;
      }
    }
    EXPECT_EQ(allowed, 5) << user;
    EXPECT_EQ(tally.broken, 0u) << tally.example;
  }
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    EXPECT_FALSE(cluster.node(i).keys("weir:1:*/u*").empty()) << "master " << i;
  }
  // The redirection names a port that speaks TLS, too.
  const std::uint64_t before = counted(guard, "moved");
  std::size_t from = 0;
  std::vector<std::string> keys;
  for (; from < 3 && (keys = cluster.node(from).keys("weir:1:*/moved")).empty(); ++from) {
  }
  if (keys.empty()) {
    Tally tally;
    (void)check(guard, "count", "moved", tally);
    for (from = 0; from < 3 && (keys = cluster.node(from).keys("weir:1:*/moved")).empty(); ++from) {
    }
  }
  ASSERT_FALSE(keys.empty());
  cluster.move_slot(store::redis::key_slot(keys.front()), cluster.node(from),
                    cluster.node((from + 1) % 3));
  Tally tally;
  for (int i = 0; i < 20; ++i) (void)check(guard, "count", "moved", tally);
  EXPECT_EQ(tally.allowed_by_store, 20u) << heard_.all();
  EXPECT_GE(counted(guard, "moved"), before + 20);
  EXPECT_EQ(heard_.count(StoreEvent::Kind::away), 0) << heard_.all();
}

TEST_F(GuardOverTls, FollowsAReplicaOfAClusterThatTookOver) {
  RedisCluster cluster({.replicas = 1, .node_timeout_ms = 2'000, .tls = files()});
  Guard guard = open(on(cluster.url()));
  std::vector<std::string> users;
  for (int i = 0; users.size() < 3; ++i) {
    Tally tally;
    const std::string user = "f" + std::to_string(i);
    (void)check(guard, "count", user, tally);
    if (!cluster.node(1).keys("weir:1:*/" + user).empty()) users.push_back(user);
    ASSERT_LT(i, 500);
  }
  cluster.node(1).kill();
  for (const std::string& user : users) {
    EXPECT_TRUE(eventually([&] {
      Tally tally;
      (void)check(guard, "count", user, tally);
      return tally.allowed_by_store == 1;
    })) << heard_.all()
        << guard.impl().shared()->state_json();
  }
  EXPECT_TRUE(heard_.said(StoreEvent::Kind::away, "shard 127.0.0.1:"));
}

// Whoever signed the nodes' certificate is not trusted: nothing is decided there, and it is said.
// A file of authorities that is there, and cannot be read until the test says so.
class UnreadableFile {
 public:
  explicit UnreadableFile(const std::string& name) : name_(name), pipe_(name + ".pipe") {
    std::ifstream in(name);
    text_.assign(std::istreambuf_iterator<char>(in), {});
    if (::mkfifo(pipe_.c_str(), 0600) != 0) throw std::runtime_error("mkfifo: " + pipe_);
    std::filesystem::create_hard_link(pipe_, pipe_ + ".link");
    std::filesystem::rename(pipe_ + ".link", name_);
  }
  ~UnreadableFile() { mend(); }

  // Whoever wants to read it has begun to, and waits.
  bool is_waited_for() {
    return eventually(
        [&] { return (writer_ = ::open(pipe_.c_str(), O_WRONLY | O_NONBLOCK)) >= 0; });
  }
  // It is what it was; whoever waits for the one that could not be read is given it.
  void mend() {
    if (mended_) return;
    mended_ = true;
    std::ofstream(name_ + ".new") << text_;
    std::filesystem::rename(name_ + ".new", name_);
    if (writer_ < 0) return;
    EXPECT_EQ(::write(writer_, text_.data(), text_.size()), static_cast<ssize_t>(text_.size()));
    ::close(writer_);
  }

 private:
  const std::string name_;
  const std::string pipe_;
  std::string text_;
  int writer_ = -1;
  bool mended_ = false;
};

// A new connection needs the files; all others go on, with their deadlines.
TEST_F(GuardOverTls, GoesOnForOtherMastersWhileTheFilesCannotBeRead) {
  RedisCluster cluster({.tls = files()});
  Guard guard = open(on(cluster.url()));
  std::vector<std::vector<std::string>> users(3);
  Tally tally;
  for (int i = 0; i < 30; ++i) {
    const std::string user = "u" + std::to_string(i);
    (void)check(guard, "count", user, tally);
    for (std::size_t master = 0; master < 3; ++master) {
      if (!cluster.node(master).keys("weir:1:*/" + user).empty()) users[master].push_back(user);
    }
  }
  for (const auto& of : users) ASSERT_FALSE(of.empty());
  UnreadableFile ca(path("ca.pem"));
  cluster.node(0).execute({"CLIENT", "KILL", "TYPE", "normal"});
  Tally lost;
  ASSERT_TRUE(eventually(
      [&] { return check(guard, "count", users[0][0], lost).verdict == Verdict::refused; }));
  ASSERT_TRUE(ca.is_waited_for());
  Tally well;
  for (int i = 0; i < 100; ++i) {
    (void)check(guard, "count", users[1][0], well);
    (void)check(guard, "count", users[2][0], well);
    (void)check(guard, "count", users[0][0], lost);
  }
  EXPECT_EQ(well.allowed_by_store, well.asked) << heard_.all();
  EXPECT_TRUE(well.in_time()) << well.times();
  EXPECT_TRUE(lost.in_time()) << lost.times();
  ca.mend();
  EXPECT_TRUE(until_store(guard, "count", users[0][0])) << heard_.all();
}

TEST_F(GuardOverTls, SaysThatAClustersNodesAreNotTrusted) {
  RedisCluster cluster({.tls = files()});
  Guard guard = open(on(cluster.url(), "other.pem"));
  Tally tally;
  for (int i = 0; i < 20; ++i) (void)check(guard, "login", "u", tally);
  EXPECT_EQ(tally.verdicts[Verdict::refused], 20u);
  EXPECT_EQ(tally.broken, 0u) << tally.example;
  EXPECT_LT(tally.slowest, kAnswered);
  EXPECT_TRUE(heard_.said(StoreEvent::Kind::away_at_start, "certificate")) << heard_.all();
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    EXPECT_TRUE(cluster.node(i).keys("weir:*").empty());
  }
}

class GuardUnderSentinelsOverTls : public GuardOverTls {
 protected:
  void SetUp() override {
    const auto speaking_tls = [&](std::uint16_t port, std::vector<std::string> more) {
      std::vector<std::string> arguments = files();
      arguments.insert(arguments.end(),
                       {"--tls-port", std::to_string(port), "--tls-replication", "yes"});
      arguments.insert(arguments.end(), more.begin(), more.end());
      return std::make_unique<RedisServer>(RedisServer::Options{.arguments = arguments});
    };
    const std::uint16_t master_port = testing::free_port();
    master_ = speaking_tls(master_port, {});
    replica_ =
        speaking_tls(testing::free_port(), {"--replicaof", "127.0.0.1", std::to_string(master_port),
                                            "--repl-diskless-sync-delay", "0"});
    for (int i = 0; i < 3; ++i) {
      ports_.push_back(testing::free_port());
      std::string configuration;
      const std::vector<std::string> tls = files();
      for (std::size_t at = 0; at < tls.size(); at += 2) {
        configuration += tls[at].substr(2) + " " + tls[at + 1] + "\n";
      }
      sentinels_.push_back(std::make_unique<RedisServer>(RedisServer::Options{
          .sentinel = configuration + "tls-port " + std::to_string(ports_.back()) +
                      "\ntls-replication yes\nsentinel monitor main 127.0.0.1 " +
                      std::to_string(master_port) +
                      " 2\nsentinel down-after-milliseconds main 500\n"
                      "sentinel failover-timeout main 3000\n"}));
    }
    for (const auto& sentinel : sentinels_) {
      ASSERT_TRUE(eventually([&] {
        const std::string said = sentinel->execute({"SENTINEL", "MASTER", "main"});
        return said.find("$10\r\nnum-slaves\r\n$1\r\n1") != std::string::npos &&
               said.find("$19\r\nnum-other-sentinels\r\n$1\r\n2") != std::string::npos;
      })) << sentinel->execute({"SENTINEL", "MASTER", "main"});
    }
    ASSERT_TRUE(eventually([&] {
      return replica_->text({"INFO", "replication"}).find("master_link_status:up") !=
             std::string::npos;
    }));
  }
  std::string url() const {
    std::string hosts;
    for (const std::uint16_t port : ports_) {
      hosts += (hosts.empty() ? "" : ",") + ("127.0.0.1:" + std::to_string(port));
    }
    return "rediss+sentinel://" + hosts + "/main";
  }

  std::unique_ptr<RedisServer> master_;
  std::unique_ptr<RedisServer> replica_;
  std::deque<std::unique_ptr<RedisServer>> sentinels_;
  std::vector<std::uint16_t> ports_;
};

TEST_F(GuardUnderSentinelsOverTls, FollowsAFailover) {
  Guard guard = open(on(url()));
  Tally tally;
  int allowed = 0;
  for (int i = 0; i < 10; ++i) allowed += check(guard, "login", "u", tally).allowed() ? 1 : 0;
  EXPECT_EQ(allowed, 5);
  EXPECT_FALSE(master_->keys("weir:1:*").empty());
  master_->kill();
  EXPECT_TRUE(eventually([&] {
    Tally late;
    (void)check(guard, "count", "v", late);
    return late.allowed_by_store == 1;
  })) << heard_.all();
  // A sentinel closes whatever is connected to a server that it promotes, this test too.
  EXPECT_TRUE(eventually([&] { return !replica_->keys("weir:1:*/v").empty(); }));
  EXPECT_EQ(tally.broken, 0u) << tally.example;
}

TEST_F(GuardUnderSentinelsOverTls, SaysThatTheSentinelsAreNotTrusted) {
  Guard guard = open(on(url(), "other.pem"));
  Tally tally;
  (void)check(guard, "login", "u", tally);
  EXPECT_EQ(tally.verdicts[Verdict::refused], 1u);
  EXPECT_EQ(heard_.count(StoreEvent::Kind::away_at_start), 1) << heard_.all();
  EXPECT_TRUE(master_->keys("weir:*").empty());
}

}  // namespace
}  // namespace weir::fault
