// `weir proxy` as its users meet it: a real Redis behind it, Toxiproxy's own client, curl, signals.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "drill/run/child_process.h"
#include "program.h"
#include "testing/redis_server.h"

namespace weir::cli_tests {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Proxy : public ::testing::Test {
 protected:
  // Starts it and waits for its ready line.
  void start(std::vector<std::string> words) {
    words.insert(words.begin(), {WEIR_PROGRAM, "proxy", "--api", "127.0.0.1:0"});
    child_ = drill::ChildProcess::start(words, folder_.path(), folder_.path() + "/log").value();
    const auto until = std::chrono::steady_clock::now() + 20s;
    while (after("  api").empty()) {
      ASSERT_TRUE(child_->running()) << child_->output();
      ASSERT_LT(std::chrono::steady_clock::now(), until);
      std::this_thread::sleep_for(5ms);
    }
  }
  void await_output(const std::string& text) {
    const auto until = std::chrono::steady_clock::now() + 20s;
    while (child_->output().find(text) == std::string::npos) {
      ASSERT_TRUE(child_->running()) << child_->output();
      ASSERT_LT(std::chrono::steady_clock::now(), until) << child_->output();
      std::this_thread::sleep_for(5ms);
    }
  }
  // What stands after the word and blanks, up to the next blank or end of line.
  std::string after(const std::string& word) const {
    const std::string text = child_->output();
    const std::size_t at = text.find(word);
    if (at == std::string::npos || text.find('\n', at) == std::string::npos) return {};
    const std::size_t begin = text.find_first_not_of(' ', at + word.size());
    return text.substr(begin, text.find_first_of(" \n", begin) - begin);
  }
  std::string api() const { return after("  api"); }
  // The body and, after it, the status.
  std::string ask(const std::string& method, const std::string& target, const std::string& body,
                  std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"curl", "-s", "-w", "%{http_code}", "-X",
                                      method, "-d", body, api() + target};
    words.insert(words.end(), more.begin(), more.end());
    return run(std::move(words)).out;
  }
  bool have(const char* program) {
    return run({"sh", "-c", std::string("command -v ") + program}).exit_code == 0;
  }

  Folder folder_;
  std::optional<drill::ChildProcess> child_;
};

TEST_F(Proxy, IsAskedByToxiproxysOwnClient) {
  if (!have("go")) GTEST_SKIP() << "go is not installed";
  const std::string client = folder_.path() + "/client";
  const char* const home = std::getenv("HOME");
  const Outcome built = run({"go", "build", "-o", client, "."},
                            {.folder = WEIR_SOURCE_DIR "/tests/cli/toxiproxy_client",
                             .variables = {{"HOME", home != nullptr ? home : folder_.path()}}});
  if (built.exit_code != 0) GTEST_SKIP() << "the client cannot be had here: " << built.err;
  start({});
  const Outcome asked = run({client, api()});
  EXPECT_EQ(asked.out, "ok\n") << asked.err;
  EXPECT_EQ(asked.exit_code, 0);
}

TEST_F(Proxy, BreaksWhatPassesToARealRedis) {
  if (!have("curl")) GTEST_SKIP() << "curl is not installed";
  testing::RedisServer redis;
  start({"--upstream", "127.0.0.1:" + std::to_string(redis.port()), "--name", "redis"});
  const std::string listen = after("  redis");
  testing::RedisConnection client(
      static_cast<std::uint16_t>(std::stoi(listen.substr(listen.rfind(':') + 1))));
  EXPECT_EQ(client.execute({"PING"}), "+PONG\r\n");
  EXPECT_THAT(
      ask("POST", "/proxies/redis/toxics", R"({"type":"latency","attributes":{"latency":80}})"),
      HasSubstr("\"latency_downstream\""));
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(client.execute({"PING"}), "+PONG\r\n");
  EXPECT_GE(std::chrono::steady_clock::now() - begun, 80ms);
}

TEST_F(Proxy, IsNotForPagesOfABrowser) {
  if (!have("curl")) GTEST_SKIP() << "curl is not installed";
  start({});
  EXPECT_THAT(ask("GET", "/version", ""), HasSubstr("200"));
  for (const char* header :
       {"User-Agent: Mozilla/5.0", "Origin: http://127.0.0.1", "Host: attacker.example"}) {
    EXPECT_THAT(ask("GET", "/version", "", {"-H", header}), HasSubstr("not allowed")) << header;
  }
  folder_.write("large", std::string(2U << 20U, ' '));
  EXPECT_THAT(ask("POST", "/populate", "@" + folder_.path() + "/large"), HasSubstr("413"));
}

TEST_F(Proxy, ReadsAFileAndEndsWhenItIsToldTo) {
  folder_.write("proxies.json", R"([{"name": "one", "upstream": "127.0.0.1:9", "toxics":
      [{"type": "drop"}]}, {"name": "two", "upstream": "127.0.0.1:9", "enabled": false}])");
  start({"--config", "proxies.json"});
  EXPECT_THAT(child_->output(), StartsWith("weir proxy is ready\n  one  127.0.0.1:"));
  EXPECT_THAT(child_->output(), HasSubstr("\n  two  127.0.0.1:0 -> 127.0.0.1:9 (disabled)\n"));
  child_->signal(SIGTERM);
  EXPECT_TRUE(child_->wait(20s));
}

TEST_F(Proxy, PlaysAScenarioOfTheDrillOut) {
  testing::RedisServer redis;
  folder_.write("day.yaml", R"(
phases:
  - {name: calm, for: 300ms}
  - {name: silent, for: 300ms, store: blackhole}
  - {name: gone, for: 1h, store: refuse, reset: true}
)");
  start({"--upstream", "127.0.0.1:" + std::to_string(redis.port()), "--scenario", "day.yaml"});
  const std::string listen = after("  store");
  const auto port = static_cast<std::uint16_t>(std::stoi(listen.substr(listen.rfind(':') + 1)));
  await_output("day: gone, 3600 s");
  EXPECT_THAT(child_->output(), HasSubstr("day: calm, 300 ms\nday: silent, 300 ms\nday: gone, "));
  // It says so once it has done so.
  EXPECT_THROW(testing::RedisConnection{port}, std::runtime_error);
  EXPECT_EQ(redis.execute({"PING"}), "+PONG\r\n");
}

TEST_F(Proxy, AfterAScenarioPassesEverythingOn) {
  testing::RedisServer redis;
  folder_.write("blink.yaml", R"(
phases:
  - {name: calm, for: 100ms}
  - {name: gone, for: 200ms, store: refuse, reset: true}
)");
  start({"--upstream", "127.0.0.1:" + std::to_string(redis.port()), "--name", "redis", "--scenario",
         "blink.yaml"});
  const std::string listen = after("  redis");
  await_output("blink: over");
  testing::RedisConnection client(
      static_cast<std::uint16_t>(std::stoi(listen.substr(listen.rfind(':') + 1))));
  EXPECT_EQ(client.execute({"PING"}), "+PONG\r\n");
  EXPECT_TRUE(child_->running());
}

TEST_F(Proxy, SaysWhatItCannotDo) {
  const auto fails = [&](std::vector<std::string> words, int code) {
    words.insert(words.begin(), "proxy");
    const Outcome outcome = weir(std::move(words), {.folder = folder_.path()});
    EXPECT_EQ(outcome.exit_code, code) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(fails({"--listen", "127.0.0.1:0"}, 2), HasSubstr("--upstream is required"));
  EXPECT_THAT(fails({"--upstream", "here"}, 2), HasSubstr("'here' is no host:port"));
  EXPECT_THAT(fails({"--upstream", "127.0.0.1:0"}, 2), HasSubstr("has port 0"));
  EXPECT_THAT(fails({"--upstream", "127.0.0.1:16398", "--listen", "127.0.0.1:16398"}, 2),
              HasSubstr("is the proxy itself"));
  EXPECT_THAT(fails({"--scenario", "down"}, 2), HasSubstr("--upstream is required"));
  EXPECT_THAT(fails({"--upstream", "127.0.0.1:9", "--scenario", "nowhere"}, 2),
              HasSubstr("--scenario: nowhere: cannot be read"));
  EXPECT_THAT(fails({"--upstream", "127.0.0.1:9", "--scenario", "one-of-three-shards"}, 2),
              HasSubstr("changes the server itself"));
  EXPECT_THAT(fails({"--api", "0.0.0.0:0"}, 2), HasSubstr("no loopback address"));
  EXPECT_THAT(fails({"--config", "none.json"}, 2), HasSubstr("'none.json' cannot be read"));
  folder_.write("wrong.json", R"([{"name": "x"}])");
  EXPECT_THAT(fails({"--config", "wrong.json"}, 2),
              HasSubstr("wrong.json: missing required field"));
  start({});
  EXPECT_THAT(fails({"--api", api().substr(7)}, 3), HasSubstr("cannot listen on"));
}

}  // namespace
}  // namespace weir::cli_tests
