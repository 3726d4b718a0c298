#pragma once

// A store that is watched by real sentinels.

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>

#include "fault_rig.h"

namespace weir::fault {

// One master, one replica, three sentinels.
class GuardUnderSentinels : public ::testing::Test {
 protected:
  static constexpr int kSentinels = 3;
  // How long the sentinels wait to be sure.
  virtual int down_after_ms() const { return 500; }

  void SetUp() override {
    master_ = std::make_unique<testing::RedisServer>();
    replica_ = std::make_unique<testing::RedisServer>(testing::RedisServer::Options{
        .arguments = {"--replicaof", "127.0.0.1", std::to_string(master_->port()),
                      "--repl-diskless-sync-delay", "0"}});
    for (int i = 0; i < kSentinels; ++i) {
      sentinels_.push_back(std::make_unique<testing::RedisServer>(testing::RedisServer::Options{
          .sentinel = "sentinel monitor main 127.0.0.1 " + std::to_string(master_->port()) +
                      " 2\nsentinel down-after-milliseconds main " +
                      std::to_string(down_after_ms()) +
                      "\nsentinel failover-timeout main 3000\n"}));
    }
  }
  // A failover needs a replica in step, and sentinels that know it and each other.
  void know_each_other() {
    ASSERT_TRUE(eventually([&] {
      return replica_->text({"INFO", "replication"}).find("master_link_status:up") !=
             std::string::npos;
    }));
    for (const auto& sentinel : sentinels_) {
      ASSERT_TRUE(eventually([&] {
        const std::string said = sentinel->execute({"SENTINEL", "MASTER", "main"});
        return said.find("$10\r\nnum-slaves\r\n$1\r\n1") != std::string::npos &&
               said.find("$19\r\nnum-other-sentinels\r\n$1\r\n2") != std::string::npos;
      })) << sentinel->execute({"SENTINEL", "MASTER", "main"});
    }
  }

  std::string url(const std::string& name = "main") const {
    std::string hosts;
    for (const auto& sentinel : sentinels_) {
      hosts += (hosts.empty() ? "" : ",") + ("127.0.0.1:" + std::to_string(sentinel->port()));
    }
    return "redis+sentinel://" + hosts + "/" + name;
  }
  PolicyOptions options(const std::string& name = "main") const {
    return {.url = url(name), .deadline = "1s"};
  }
  Guard open() { return Guard::open(policy_on(0, options()), {.observer = &heard_}).value(); }
  // The role that the server at that port has by its own word.
  static bool is_master(testing::RedisServer& server) {
    return server.text({"INFO", "replication"}).find("role:master") != std::string::npos;
  }

  std::unique_ptr<testing::RedisServer> master_;
  std::unique_ptr<testing::RedisServer> replica_;
  std::deque<std::unique_ptr<testing::RedisServer>> sentinels_;
  Heard heard_;
};

}  // namespace weir::fault
