// The drill of somebody's API: small real servers on a real Redis, each with another idea of what
// to do when it is away.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "drill/run/child_process.h"
#include "program.h"
#include "testing/redis_server.h"

namespace weir::cli_tests {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
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
  void start_app(const std::string& conduct, std::uint16_t store) {
    app_ =
        drill::ChildProcess::start({"/usr/bin/python3", WEIR_SOURCE_DIR "/tests/cli/limited_app.py",
                                    conduct, std::to_string(store), "20", "0.3"},
                                   folder_.path(), folder_.path() + "/app.log")
            .value();
    const auto until = std::chrono::steady_clock::now() + 20s;
    while (!app_->output().ends_with("\n")) {
      ASSERT_TRUE(app_->running()) << app_->output();
      ASSERT_LT(std::chrono::steady_clock::now(), until);
      std::this_thread::sleep_for(5ms);
    }
  }
  std::string target() const {
    std::string port = app_->output();
    port.pop_back();
    return "http://127.0.0.1:" + port + "/";
  }
  Outcome drill(const std::string& scenario, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"drill",         scenario,
                                      "--target",      target(),
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
  EXPECT_THAT(phases[1]["finding"].get<std::string>(), StartsWith(row.words));
  EXPECT_THAT(phases[2]["finding"].get<std::string>(), StartsWith("limits: "));
  EXPECT_THAT(outcome.err, HasSubstr("the app's store must be 127.0.0.1:"));
}

INSTANTIATE_TEST_SUITE_P(TargetDrill, Conducts,
                         ::testing::Values(Row{"open", "fails open after 3", 0},
                                           Row{"closed", "fails closed, with 503, after 3", 0},
                                           Row{"as_limit", "fails closed after 3", 0},
                                           Row{"errors", "turns into 500s after 3", 1},
                                           Row{"hangs", "hangs: no answer within 2", 1},
                                           Row{"alone", "keeps limiting without the store after 3",
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
  EXPECT_THAT(with({"--limit", "1 per hour", "--key", "header:X", "readonly"}),
              HasSubstr("changes the store's server itself"));
}

}  // namespace
}  // namespace weir::cli_tests
