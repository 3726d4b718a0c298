// Passwords and certificates are changed while Guards run, as operators change them.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "guard/impl.h"
#include "sentinel_rig.h"
#include "testing/test_certificate.h"

namespace weir::fault {
namespace {

using testing::RedisServer;
using testing::TestCertificate;

class GuardUnderSentinelsWithAPassword : public GuardUnderSentinels {
 protected:
  // A busy machine is no reason for a failover of its own.
  int down_after_ms() const override { return 2'000; }

  void SetUp() override {
    GuardUnderSentinels::SetUp();
    know_each_other();
    // What is connected already, as this test is, stays so.
    for (RedisServer* each : all()) must(*each, {"ACL", "SETUSER", "default", "resetpass"});
    change("first");
    file_ = ::testing::TempDir() + "/weir-sentinel-password-" + std::to_string(::getpid());
    write("first");
  }
  void TearDown() override { std::filesystem::remove(file_); }

  std::vector<RedisServer*> all() {
    std::vector<RedisServer*> out{master_.get(), replica_.get()};
    for (const auto& sentinel : sentinels_) out.push_back(sentinel.get());
    return out;
  }
  static void must(RedisServer& server, const std::vector<std::string>& command) {
    EXPECT_EQ(server.text(command), "OK") << command[0] << ' ' << command[1];
  }
  // It is valid everywhere from now on, and servers and sentinels use it among themselves.
  void change(const std::string& password) {
    for (RedisServer* each : all()) must(*each, {"ACL", "SETUSER", "default", ">" + password});
    for (RedisServer* each : {master_.get(), replica_.get()})
      must(*each, {"CONFIG", "SET", "masterauth", password});
    for (const auto& sentinel : sentinels_) {
      must(*sentinel, {"SENTINEL", "SET", "main", "auth-pass", password});
      must(*sentinel, {"SENTINEL", "CONFIG", "SET", "sentinel-pass", password});
    }
  }
  // It is valid nowhere any more, and connections begin anew.
  void take_away(const std::string& password) {
    for (RedisServer* each : all()) must(*each, {"ACL", "SETUSER", "default", "<" + password});
    for (RedisServer* each : all()) each->execute({"CLIENT", "KILL", "USER", "default"});
  }
  void write(const std::string& password) const {
    std::ofstream(file_ + ".new") << password << '\n';
    std::filesystem::rename(file_ + ".new", file_);
  }
  Guard open_with_file() {
    PolicyOptions with = options();
    with.store = "  password_file: " + file_ + "\n";
    return Guard::open(policy_on(0, with), {.observer = &heard_}).value();
  }

  std::string file_;
};

TEST_F(GuardUnderSentinelsWithAPassword, GoesOnWhileThePasswordIsChanged) {
  Guard guard = open_with_file();
  ASSERT_TRUE(until_store(guard, "count", "u")) << heard_.all();
  Load load(guard, "count", "u", 2);
  ASSERT_TRUE(eventually([&] { return load.asked() >= 100; }));
  change("second");
  write("second");
  take_away("first");
  const std::uint64_t then = load.asked();
  ASSERT_TRUE(eventually([&] { return load.asked() >= then + 100; }));
  ASSERT_TRUE(until_store(guard, "count", "v")) << heard_.all();
  const Tally tally = load.stop();
  EXPECT_EQ(tally.broken, 0u) << tally.example;
  EXPECT_EQ(tally.verdicts.count(Verdict::limited), 0u);
  EXPECT_DOUBLE_EQ(store_errors(guard, "misconfigured"), 0) << "no password was refused";
  // The new master is asked with the new password, and so are the sentinels that name it.
  master_->kill();
  EXPECT_TRUE(eventually([&] { return heard_.count(StoreEvent::Kind::away) > 0; }));
  EXPECT_TRUE(eventually(
      [&] {
        Tally late;
        return check(guard, "count", "w", late).rung == Rung::store;
      },
      seconds(60)))
      << heard_.all();
}

// The file follows late: meanwhile the policy decides, and it is said why.
TEST_F(GuardUnderSentinelsWithAPassword, GoesByThePolicyUntilTheFileHasTheNewPassword) {
  Guard guard = open_with_file();
  ASSERT_TRUE(until_store(guard, "count", "u")) << heard_.all();
  change("second");
  take_away("first");
  Tally without;
  ASSERT_TRUE(eventually([&] {
    return check(guard, "count", "u", without).verdict == Verdict::refused;
  })) << heard_.all();
  const auto hour = [] {
    return std::chrono::floor<std::chrono::hours>(std::chrono::system_clock::now());
  };
  const auto first_hour = hour();
  std::int64_t admitted = 0;
  for (int i = 0; i < 50; ++i) {
    const Decision decision = check(guard, "search", "u", without);
    if (decision.allowed() && decision.rung == Rung::share) ++admitted;
  }
  // Five of ten in each hour that was touched.
  const std::int64_t part = 5 * (1 + (hour() - first_hour).count());
  EXPECT_EQ(without.broken, 0u) << without.example;
  EXPECT_GE(admitted, 5) << "its part";
  EXPECT_LE(admitted, part) << "and no more";
  EXPECT_TRUE(eventually([&] { return store_errors(guard, "misconfigured") > 0; })) << heard_.all();
  write("second");
  EXPECT_TRUE(until_store(guard, "count", "u")) << heard_.all();
}

class GuardWithACertificate : public ::testing::Test {
 protected:
  GuardWithACertificate()
      : folder_(std::filesystem::canonical(::testing::TempDir()) /
                ("weir_renewed_" + std::to_string(::getpid()))),
        authority_("authority of servers"),
        old_("authority of clients"),
        next_("next authority of clients"),
        certificate_("redis", &authority_) {
    std::filesystem::create_directories(folder_);
    authority_.write(path("ca.pem"), path("ca.key"));
    certificate_.write(path("server.pem"), path("server.key"));
    old_.write(path("clients.pem"), path("clients.key"));
    next_.write(path("next.pem"), path("next.key"));
    TestCertificate("weir", &old_).write(path("client.pem"), path("client.key"));
    std::filesystem::copy(path("client.pem"), path("before.pem"));
    std::filesystem::copy(path("client.key"), path("before.key"));
    port_ = testing::free_port();
    server_ = std::make_unique<RedisServer>(RedisServer::Options{
        .arguments = {"--tls-port", std::to_string(port_), "--tls-cert-file", path("server.pem"),
                      "--tls-key-file", path("server.key"), "--tls-ca-cert-file",
                      path("clients.pem"), "--tls-auth-clients", "yes"}});
  }
  ~GuardWithACertificate() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  Result<Guard> open(const std::string& name, const std::string& startup) {
    return Guard::open(policy_on(0, {.url = "rediss://127.0.0.1:" + std::to_string(port_),
                                     .deadline = "2s",
                                     .store = "  startup: " + startup + "\n  tls: {ca: " +
                                              path("ca.pem") + ", cert: " + path(name + ".pem") +
                                              ", key: " + path(name + ".key") + "}\n"}),
                       {.observer = &heard_});
  }
  // In place of the old files, one after the other.
  void renew() {
    TestCertificate("weir", &next_).write(path("new.pem"), path("new.key"));
    std::filesystem::rename(path("new.pem"), path("client.pem"));
    std::filesystem::rename(path("new.key"), path("client.key"));
  }
  // Connections that are made to the TLS port from now on need a certificate of that authority.
  void trust(const std::string& name) {
    ASSERT_EQ(server_->text({"CONFIG", "SET", "tls-ca-cert-file", path(name + ".pem")}), "OK");
  }

  std::filesystem::path folder_;
  TestCertificate authority_;
  TestCertificate old_;
  TestCertificate next_;
  TestCertificate certificate_;
  std::uint16_t port_ = 0;
  std::unique_ptr<RedisServer> server_;
  Heard heard_;
};

TEST_F(GuardWithACertificate, ShowsTheRenewedOneAtItsNextConnection) {
  Guard guard = open("client", "require").value();
  Tally tally;
  for (int i = 0; i < 10; ++i) (void)check(guard, "count", "u", tally);
  renew();
  trust("next");
  const Result<Guard> refused = open("before", "require");
  EXPECT_FALSE(refused) << "the old certificate opens no connection any more";
  // The one that stands lives on.
  for (int i = 0; i < 20; ++i) (void)check(guard, "count", "u", tally);
  EXPECT_EQ(tally.allowed_by_store, tally.asked) << heard_.all();
  EXPECT_EQ(heard_.count(StoreEvent::Kind::away), 0) << heard_.all();
  server_->execute({"CLIENT", "KILL", "TYPE", "normal"});
  EXPECT_TRUE(until_store(guard, "count", "u")) << heard_.all();
  EXPECT_EQ(counted(guard, "u"), 30u);
}

// Revoked before it was renewed: the policy decides, and the store does once the files are there.
TEST_F(GuardWithACertificate, ComesBackOnceARefusedOneIsRenewed) {
  Guard guard = open("client", "require").value();
  Tally tally;
  (void)check(guard, "count", "u", tally);
  ASSERT_EQ(tally.allowed_by_store, 1u);
  trust("next");
  server_->execute({"CLIENT", "KILL", "TYPE", "normal"});
  ASSERT_TRUE(eventually([&] {
    return check(guard, "count", "u", tally).verdict == Verdict::refused;
  })) << heard_.all();
  EXPECT_EQ(tally.broken, 0u) << tally.example;
  renew();
  EXPECT_TRUE(until_store(guard, "count", "u")) << heard_.all();
}

}  // namespace
}  // namespace weir::fault
