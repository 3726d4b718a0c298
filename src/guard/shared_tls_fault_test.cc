// A store that is reached over TLS: whom we trust, and what a fault in that looks like.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "guard/impl.h"
#include "testing/patience.h"
#include "testing/redis_server.h"
#include "testing/test_certificate.h"
#include "weir/guard.h"

namespace weir {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using testing::kPatience;
using ::testing::Not;
using testing::RedisServer;
using testing::TestCertificate;

class SharedTls : public ::testing::Test {
 protected:
  SharedTls()
      : folder_(std::filesystem::canonical(::testing::TempDir()) /
                ("weir_store_tls_" + std::to_string(::getpid()))),
        authority_("authority"),
        server_certificate_("redis", &authority_),
        client_certificate_("weir", &authority_) {
    std::filesystem::create_directories(folder_);
    authority_.write(path("ca.pem"), path("ca.key"));
    server_certificate_.write(path("server.pem"), path("server.key"));
    client_certificate_.write(path("client.pem"), path("client.key"));
  }
  ~SharedTls() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // Serves TLS beside the plain port that the test looks in by.
  void serve(const std::string& clients) {
    tls_port_ = testing::free_port();
    server_ = std::make_unique<RedisServer>(RedisServer::Options{
        .arguments = {"--tls-port", std::to_string(tls_port_), "--tls-cert-file",
                      path("server.pem"), "--tls-key-file", path("server.key"),
                      "--tls-ca-cert-file", path("ca.pem"), "--tls-auth-clients", clients}});
  }

  // `tls` is the map of the policy's tls field; `startup` require or degrade.
  Result<Guard> open(const std::string& tls, const std::string& startup = "require",
                     const std::string& host = "localhost") {
    return Guard::open(
        Policy::parse("store: {url: 'rediss://" + host + ":" + std::to_string(tls_port_) +
                      "', deadline: 5s, connect_timeout: 2s, startup: " + startup +
                      ", tls: " + tls +
                      "}\ninputs: [user]\nroutes:\n  login:\n    limits: [5 per hour by user]\n"
                      "    protects: security\n")
            .value());
  }
  std::string problem(const std::string& tls, const std::string& host = "localhost") {
    const Result<Guard> opened = open(tls, "require", host);
    return opened ? "opened" : opened.error().message;
  }
  std::string ca() const { return "ca: " + path("ca.pem"); }

  std::filesystem::path folder_;
  TestCertificate authority_;
  TestCertificate server_certificate_;
  TestCertificate client_certificate_;
  std::uint16_t tls_port_ = 0;
  std::unique_ptr<RedisServer> server_;
};

TEST_F(SharedTls, CountsExactlyOnAServerItTrusts) {
  serve("no");
  for (const char* host : {"localhost", "127.0.0.1"}) {
    Guard guard = open("{" + ca() + "}", "require", host).value();
    int allowed = 0;
    for (int i = 0; i < 20; ++i) allowed += guard.check("login", {{"user", host}}).allowed();
    EXPECT_EQ(allowed, 5) << host;
  }
  // Many asks at once fill more than one record of TLS.
  Guard guard = open("{" + ca() + "}").value();
  std::vector<std::thread> threads;
  std::atomic<int> allowed{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) allowed += guard.check("login", {{"user", "many"}}).allowed();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allowed.load(), 5);
}

TEST_F(SharedTls, SaysWhomItDoesNotTrustAndSendsThemNothing) {
  serve("no");
  EXPECT_THAT(problem("{}"), HasSubstr("the server's certificate: "));
  TestCertificate other("other");
  other.write(path("other.pem"), path("other.key"));
  EXPECT_THAT(problem("{ca: " + path("other.pem") + "}"), HasSubstr("the server's certificate: "));
  EXPECT_THAT(problem("{" + ca() + ", server_name: redis.example}"), HasSubstr("ostname mismatch"));
  EXPECT_THAT(problem("{" + ca() + ", server_name: 127.0.0.2}"), HasSubstr("IP address mismatch"));
  // What a connection begins with: its name, the scripts.
  const auto seen = [this] { return server_->text({"INFO", "commandstats"}); };
  EXPECT_THAT(seen(), Not(HasSubstr("cmdstat_client")));
  EXPECT_THAT(seen(), Not(HasSubstr("cmdstat_script")));
  EXPECT_EQ(problem("{" + ca() + ", server_name: 127.0.0.1}"), "opened");
  EXPECT_THAT(seen(), HasSubstr("cmdstat_script"));
}

TEST_F(SharedTls, ShowsItsCertificateWhereOneIsWanted) {
  serve("yes");
  EXPECT_EQ(
      problem("{" + ca() + ", cert: " + path("client.pem") + ", key: " + path("client.key") + "}"),
      "opened");
  EXPECT_NE(problem("{" + ca() + "}"), "opened");
}

TEST_F(SharedTls, SaysAtOnceWhichFileIsWrong) {
  serve("no");
  for (const char* startup : {"require", "degrade"}) {
    const Result<Guard> no_ca = open("{ca: " + path("nowhere.pem") + "}", startup);
    ASSERT_FALSE(no_ca);
    EXPECT_THAT(no_ca.error().message, HasSubstr("store.tls.ca: " + path("nowhere.pem")));
    const Result<Guard> wrong_key =
        open("{" + ca() + ", cert: " + path("client.pem") + ", key: " + path("server.key") + "}",
             startup);
    ASSERT_FALSE(wrong_key);
    EXPECT_THAT(wrong_key.error().message, HasSubstr("store.tls.key: " + path("server.key")));
  }
}

TEST_F(SharedTls, AServerThatSpeaksNoTlsIsUnreachable) {
  // It waits for the rest of a command, and so do we, as long as a connection may take.
  server_ = std::make_unique<RedisServer>();
  tls_port_ = server_->port();
  EXPECT_THAT(problem("{" + ca() + "}"), HasSubstr("no connection within connect_timeout"));
}

TEST_F(SharedTls, TakesRenewedFilesWithItsNextConnection) {
  serve("no");
  Guard guard = open("{" + ca() + "}").value();
  ASSERT_TRUE(guard.check("login", {{"user", "a"}}).allowed());
  // Another authority altogether, on both sides.
  server_->kill();
  TestCertificate next("next authority");
  TestCertificate server("redis", &next);
  next.write(path("ca.pem"), path("ca.key"));
  server.write(path("server.pem"), path("server.key"));
  server_->start();
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  Decision back;
  while (back.rung != Rung::store && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(milliseconds(5));
    back = guard.check("login", {{"user", "b"}}, {.cost = 0});
  }
  EXPECT_EQ(back.rung, Rung::store);
  EXPECT_TRUE(back.allowed());
}

}  // namespace
}  // namespace weir
