// The drill of somebody's API: small real servers on a real Redis, each with another idea of what
// to do when it is away.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <thread>

#include "drill/run/child_process.h"
#include "program.h"
#include "testing/redis_server.h"
#include "testing/test_certificate.h"

namespace weir::cli_tests {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kScenario = R"(
about: Silent, and back.
phases:
  - {name: before, for: 1500ms}
  - {name: silent, for: 1500ms, store: blackhole}
  - {name: after, for: 3s}
)";

class TargetDrill : public ::testing::Test {
 protected:
  void SetUp() override {
    if (run({"sh", "-c", "command -v /usr/bin/python3"}).exit_code != 0) {
      GTEST_SKIP() << "python3 is not installed";
    }
    folder_.write("silent.yaml", kScenario);
    folder_.write("calm.yaml", "phases: [{name: calm, for: 1500ms}]");
  }
  void start_app(const std::string& conduct, std::uint16_t store,
                 const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"/usr/bin/python3",
                                      WEIR_SOURCE_DIR "/tests/cli/limited_app.py",
                                      conduct,
                                      std::to_string(store),
                                      "20",
                                      "0.6"};
    words.insert(words.end(), more.begin(), more.end());
    start(words);
  }
  // What prints its port once it is there.
  void start(const std::vector<std::string>& words) {
    app_ = drill::ChildProcess::start(words, folder_.path(), folder_.path() + "/app.log").value();
    const auto until = std::chrono::steady_clock::now() + 20s;
    while (!app_->output().ends_with("\n")) {
      ASSERT_TRUE(app_->running()) << app_->output();
      ASSERT_LT(std::chrono::steady_clock::now(), until);
      std::this_thread::sleep_for(5ms);
    }
  }
  std::string target(const std::string& scheme = "http", const std::string& host = "127.0.0.1") {
    std::string port = app_->output();
    port.pop_back();
    return scheme + "://" + host + ":" + port + "/";
  }
  Outcome drill(const std::string& scenario, std::vector<std::string> more = {}) {
    return drill_at(target(), scenario, std::move(more));
  }
  Outcome drill_at(const std::string& url, const std::string& scenario,
                   std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"drill",         scenario,
                                      "--target",      url,
                                      "--proxy-store", "127.0.0.1:" + std::to_string(redis_.port()),
                                      "--listen",      "127.0.0.1:" + std::to_string(listen_),
                                      "--limit",       "20 per minute",
                                      "--key",         "header:X-API-Key",
                                      "--timeout",     "2s",
                                      "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return weir(std::move(words), {.folder = folder_.path()});
  }

  Folder folder_;
  testing::RedisServer redis_;
  std::uint16_t listen_ = testing::free_port();
  std::optional<drill::ChildProcess> app_;
};

// How long the app waited for its store, by the words: "fails open after 312 ms a request: …".
double waited_ms(const std::string& finding) {
  std::smatch found;
  if (!std::regex_search(finding, found, std::regex("(?:after|within) ([0-9.]+) (ms|s)\\b")))
    return 0;
  return std::stod(found[1]) * (found[2] == "s" ? 1000 : 1);
}

struct Row {
  const char* conduct;
  const char* words;
  int exit_code;
};
class Conducts : public TargetDrill, public ::testing::WithParamInterface<Row> {};

TEST_P(Conducts, AreSaidInWords) {
  const Row& row = GetParam();
  start_app(row.conduct, listen_);
  const Outcome outcome = drill("silent.yaml");
  ASSERT_EQ(outcome.exit_code, row.exit_code) << outcome.out << outcome.err;
  const auto report = nlohmann::json::parse(outcome.out);
  const auto& phases = report["phases"];
  ASSERT_EQ(phases.size(), 3U);
  // 20, or 40 where a minute begins inside the phase.
  EXPECT_THAT(phases[0]["finding"].get<std::string>(), StartsWith("limits: "));
  const std::string finding = phases[1]["finding"].get<std::string>();
  EXPECT_THAT(finding, StartsWith(row.words));
  EXPECT_GE(waited_ms(finding), 600) << finding << ": the app gives its store 600 ms";
  EXPECT_THAT(phases[2]["finding"].get<std::string>(), StartsWith("limits: "));
  EXPECT_THAT(outcome.err, HasSubstr("the app's store must be 127.0.0.1:"));
}

INSTANTIATE_TEST_SUITE_P(TargetDrill, Conducts,
                         ::testing::Values(Row{"open", "fails open after ", 0},
                                           Row{"closed", "fails closed, with 503, after ", 0},
                                           Row{"as_limit", "fails closed after ", 0},
                                           Row{"errors", "turns into 500s after ", 1},
                                           Row{"hangs", "hangs: no answer within 2", 1},
                                           Row{"alone", "keeps limiting without the store after ",
                                               0}),
                         [](const auto& row) { return std::string(row.param.conduct); });

TEST_F(TargetDrill, EndsInOneWhereItIsNotWhatWasExpected) {
  start_app("open", listen_);
  const Outcome outcome = drill("silent.yaml", {"--expect", "closed"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("in 'silent' it is closed"));
}

TEST_F(TargetDrill, SaysWhereNothingCameThroughTheProxy) {
  start_app("open", redis_.port());
  const Outcome outcome = drill("calm.yaml");
  EXPECT_EQ(outcome.exit_code, 3) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr("nothing came through the proxy"));
}

TEST_F(TargetDrill, SaysWhereTheAppIsUnwellByItself) {
  start_app("errors", testing::free_port());
  const Outcome outcome = drill("calm.yaml");
  EXPECT_EQ(outcome.exit_code, 3) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr("even while nothing is the matter: turns into 500s"));
}

class TlsTarget : public TargetDrill {
 protected:
  void SetUp() override {
    TargetDrill::SetUp();
    if (IsSkipped()) return;
    authority_.write(file("ca.pem"), file("ca.key"));
    server_.write(file("cert.pem"), file("key.pem"));
    stranger_.write(file("other.pem"), file("other.key"));
    start_app("open", listen_, {file("cert.pem"), file("key.pem")});
  }
  std::string file(const std::string& name) const { return folder_.path() + "/" + name; }

  testing::TestCertificate authority_{"an authority"};
  testing::TestCertificate server_{"a server", &authority_};
  testing::TestCertificate stranger_{"another authority"};
};

TEST_F(TlsTarget, IsAskedByTls) {
  const Outcome outcome = drill_at(target("https"), "silent.yaml", {"--tls-ca", file("ca.pem")});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const auto report = nlohmann::json::parse(outcome.out);
  EXPECT_THAT(report["phases"][0]["finding"].get<std::string>(), StartsWith("limits: "));
  EXPECT_THAT(report["phases"][1]["finding"].get<std::string>(), StartsWith("fails open after "));
  EXPECT_THAT(outcome.err, Not(HasSubstr("WARNING")));
}

TEST_F(TlsTarget, MustHaveACertificateThatIsTrusted) {
  const auto refused = [&](const Outcome& outcome) {
    EXPECT_EQ(outcome.exit_code, 3) << outcome.out << outcome.err;
    return outcome.err;
  };
  // Each of these at once, not after --wait.
  const std::vector<std::string> patient = {"--wait", "50s"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), patient.begin(), patient.end());
    return more;
  };
  EXPECT_THAT(refused(drill_at(target("https"), "calm.yaml", patient)),
              HasSubstr("its certificate is not trusted: "));
  EXPECT_THAT(
      refused(drill_at(target("https"), "calm.yaml", with({"--tls-ca", file("other.pem")}))),
      HasSubstr("its certificate is not trusted: "));
  EXPECT_THAT(
      refused(drill_at(target("https"), "calm.yaml",
                       with({"--tls-ca", file("ca.pem"), "--tls-server-name", "api.example"}))),
      HasSubstr("its certificate is not for api.example"));
}

TEST_F(TlsTarget, IsKnownByItsNameOrByAnother) {
  const Outcome by_name =
      drill_at(target("https", "localhost"), "calm.yaml", {"--tls-ca", file("ca.pem")});
  EXPECT_EQ(by_name.exit_code, 0) << by_name.out << by_name.err;
  const Outcome by_other = drill_at(target("https"), "calm.yaml",
                                    {"--tls-ca", file("ca.pem"), "--tls-server-name", "localhost"});
  EXPECT_EQ(by_other.exit_code, 0) << by_other.out << by_other.err;
}

TEST_F(TlsTarget, ThatNobodyChecksIsSaidLoudly) {
  const Outcome outcome = drill_at(target("https"), "calm.yaml", {"--insecure"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("WARNING: --insecure: nobody checks who answers"));
  EXPECT_THAT(nlohmann::json::parse(outcome.out)["subject"].get<std::string>(),
              HasSubstr("NOBODY CHECKED WHO ANSWERED"));
}

TEST_F(TargetDrill, WhatWaitingDoesNotMendIsSaidAtOnce) {
  const auto begun = std::chrono::steady_clock::now();
  const std::vector<std::string> patient = {"--wait", "50s"};
  const Outcome nowhere = drill_at("http://no-such-host.invalid/", "calm.yaml", patient);
  EXPECT_EQ(nowhere.exit_code, 3) << nowhere.err;
  EXPECT_THAT(nowhere.err, HasSubstr("--target is 'http://no-such-host.invalid/': "));
  for (const char* url : {"http://127.0.0.1:0/", "http://127.0.0.1:70000/", "ftp://127.0.0.1/"}) {
    const Outcome wrong = drill_at(url, "calm.yaml", patient);
    EXPECT_EQ(wrong.exit_code, 2) << url;
    EXPECT_THAT(wrong.err, HasSubstr("--target is '" + std::string(url)));
  }
  start({"/usr/bin/python3", "-c",
         "import socket\n"
         "door = socket.create_server(('127.0.0.1', 0))\n"
         "print(door.getsockname()[1], flush=True)\n"
         "while True:\n"
         "  peer, _ = door.accept()\n"
         "  peer.sendall(b'220 mail is taken here\\r\\n')\n"
         "  peer.recv(1000)\n"
         "  peer.close()\n"});
  const Outcome no_http = drill_at(target("http"), "calm.yaml", patient);
  EXPECT_EQ(no_http.exit_code, 3) << no_http.err;
  EXPECT_THAT(no_http.err, HasSubstr("speaks no HTTP/1.1"));
  const Outcome no_tls = drill_at(target("https"), "calm.yaml", patient);
  EXPECT_EQ(no_tls.exit_code, 3) << no_tls.err;
  EXPECT_THAT(no_tls.err, HasSubstr("look at --tls-ca"));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 40s);
}

TEST_F(TargetDrill, SaysWhatItCannotDo) {
  const auto fails = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "drill");
    const Outcome outcome = weir(std::move(words), {.folder = folder_.path()});
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(fails({"--target", "http://127.0.0.1:1/"}),
              HasSubstr("--target needs --proxy-store"));
  EXPECT_THAT(fails({"weir.yaml", "--limit", "1 per hour"}), HasSubstr("goes with --target"));
  const std::vector<std::string> whole = {
      "--target", "http://127.0.0.1:1/", "--proxy-store", "127.0.0.1:1", "--listen", "127.0.0.1:0"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), whole.begin(), whole.end());
    return fails(std::move(more));
  };
  EXPECT_THAT(with({"--limit", "many", "--key", "header:X"}), HasSubstr("'100 per minute'"));
  EXPECT_THAT(with({"--limit", "1 per hour", "--key", "ip"}), HasSubstr("header:NAME"));
  EXPECT_THAT(with({"--limit", "1 per hour", "--key", "header:X", "--header", "X"}),
              HasSubstr("'Name: value'"));
  EXPECT_THAT(with({"--limit", "1 per hour", "--key", "header:X", "--timeout", "1h"}),
              HasSubstr("up to 5m"));
  EXPECT_THAT(with({"--limit", "1 per hour", "--key", "header:X", "--expect", "luck"}),
              HasSubstr("open, closed or limits"));
  EXPECT_THAT(with({"--limit", "1 per hour", "--key", "header:X", "--insecure"}),
              HasSubstr("--insecure goes with an https address"));
  EXPECT_THAT(fails({"--target", "https://127.0.0.1:1/", "--proxy-store", "127.0.0.1:1", "--limit",
                     "1 per hour", "--key", "header:X", "--insecure", "--tls-ca", "x.pem"}),
              HasSubstr("it must be one of them"));
  EXPECT_THAT(fails({"--target", "http://127.0.0.1:1/", "--proxy-store", "127.0.0.1:16399",
                     "--listen", "127.0.0.1:16399", "--limit", "1 per hour", "--key", "header:X"}),
              HasSubstr("is the proxy itself"));
  EXPECT_THAT(with({"--limit", "1 per hour", "--key", "header:X", "readonly"}),
              HasSubstr("changes the store's server itself"));
}

}  // namespace
}  // namespace weir::cli_tests
