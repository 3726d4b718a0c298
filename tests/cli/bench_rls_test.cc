// `weir bench rls` and `weir check --rls` against a server of ours.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>

#include "program.h"

namespace weir::cli_tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr const char* kBenched = R"(domain: bench
descriptors:
  - key: key
    rate_limit: {unit: day, requests_per_unit: 20, name: per_key}
)";

std::string contents(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

// `weir serve` on a free port.
class BenchRls : public ::testing::Test {
 protected:
  BenchRls() {
    folder.write("bench.yaml", kBenched);
    server = ::fork();
    if (server == 0) {
      (void)std::freopen((folder.path() + "/out").c_str(), "w", stdout);
      (void)std::freopen((folder.path() + "/err").c_str(), "w", stderr);
      const std::string policy = folder.path() + "/bench.yaml";
      ::execl(WEIR_PROGRAM, WEIR_PROGRAM, "serve", policy.c_str(), "--http", "off", "--admin",
              "off", "--grpc", "127.0.0.1:0", nullptr);
      std::_Exit(127);
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (address.empty() && std::chrono::steady_clock::now() < end) {
      const std::string said = contents(folder.path() + "/out");
      const std::size_t at = said.find("  grpc   ");
      if (at != std::string::npos && said.find('\n', at) != std::string::npos) {
        address = said.substr(at + 9, said.find('\n', at) - at - 9);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  ~BenchRls() override {
    ::kill(server, SIGKILL);
    ::waitpid(server, nullptr, 0);
  }

  std::vector<std::string> bench(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {WEIR_PROGRAM, "bench", "rls", address};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  Folder folder;
  pid_t server = -1;
  std::string address;
};

TEST_F(BenchRls, AsksOnceAndTellsTheAnswer) {
  ASSERT_NE(address, "");
  const Outcome text = weir({"check", "--rls", address, "bench", "key=a"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("key=a  OK, 19 of 20 left, unit DAY, limit per_key"));
  const Outcome over =
      weir({"check", "--rls", address, "bench", "key=a", "--cost", "20", "--json"});
  EXPECT_EQ(over.exit_code, 1);
  const auto json = nlohmann::json::parse(over.out);
  EXPECT_EQ(json.at("overallCode"), "OVER_LIMIT");
  EXPECT_EQ(json.at("statuses").at(0).at("currentLimit").at("name"), "per_key");
  EXPECT_EQ(json.at("responseHeadersToAdd").at(0).at("key"), "Retry-After");
}

TEST_F(BenchRls, AClosedLoopCountsEveryAnswer) {
  ASSERT_NE(address, "");
  // Ten keys of twenty, and everything beyond is told so: once all are used up, however long that
  // takes here.
  nlohmann::json json = nlohmann::json::object();
  int ok = 0;
  for (int run_of = 0; run_of < 40 && json.value("over_limit", 0) < 100; ++run_of) {
    const Outcome found =
        run(bench({"--duration", "500ms", "--keys", "10", "--streams", "8", "--connections", "2",
                   "--svg", folder.path() + "/latency.svg", "--json"}));
    ASSERT_EQ(found.exit_code, 0) << found.err;
    json = nlohmann::json::parse(found.out);
    ok += json.at("ok").get<int>();
  }
  EXPECT_EQ(ok, 200);
  EXPECT_GT(json.at("over_limit"), 0);
  EXPECT_EQ(json.at("unanswered"), 0);
  EXPECT_EQ(json.at("grpc_errors"), nlohmann::json::object());
  EXPECT_EQ(json.at("begun").get<int>(),
            json.at("ok").get<int>() + json.at("over_limit").get<int>());
  EXPECT_GT(json.at("latency").at("p50_us"), 0);
  EXPECT_LE(json.at("latency").at("p50_us"), json.at("latency").at("p99_us"));
  EXPECT_LE(json.at("latency").at("p99_us"), json.at("latency").at("max_us"));
  EXPECT_THAT(contents(folder.path() + "/latency.svg"),
              AllOf(HasSubstr("<svg xmlns"), HasSubstr("<polyline"), HasSubstr("</svg>")));
}

TEST_F(BenchRls, AnOpenLoopBeginsWhatIsDueAndAShareGoesOverItsLimit) {
  ASSERT_NE(address, "");
  const Outcome found = run(bench(
      {"--duration", "1s", "--rate", "2000", "--keys", "1000000", "--over-limit", "25", "--json"}));
  ASSERT_EQ(found.exit_code, 0) << found.err;
  const auto json = nlohmann::json::parse(found.out);
  EXPECT_EQ(json.at("loop"), "open");
  EXPECT_LE(json.at("begun"), 2001);
  EXPECT_GT(json.at("begun"), 0);
  // A quarter of the calls, but for the twenty that one key may have.
  const int begun = json.at("begun");
  EXPECT_NEAR(json.at("over_limit").get<int>(), std::max(0, begun / 4 - 20), 2);
}

TEST_F(BenchRls, DrawsKeysAndSendsDescriptorsAsTold) {
  ASSERT_NE(address, "");
  for (const char* distribution : {"uniform", "zipf", "hot"}) {
    const Outcome found = run(bench({"--duration", "200ms", "--distribution", distribution,
                                     "--descriptors", "3", "--timeout", "2s"}));
    EXPECT_EQ(found.exit_code, 0) << found.err;
    EXPECT_THAT(found.out, AllOf(HasSubstr(std::string("keys ") + distribution + ", 3 descriptors"),
                                 HasSubstr("0 errors, 0 unanswered"), HasSubstr("p99.9 ")));
  }
}

TEST_F(BenchRls, ATerminalSeesHowItGoesAndAPipeDoesNot) {
  ASSERT_NE(address, "");
  const auto words = bench({"--duration", "4s", "--streams", "2"});
  EXPECT_THAT(run_on_terminal(words, {.folder = ".", .variables = {{"TERM", "xterm"}}}).out,
              AllOf(HasSubstr(" answered, "), HasSubstr(" calls/s"), HasSubstr("\r\x1b[K")));
  EXPECT_EQ(run(words).err, "");
}

TEST_F(BenchRls, SaysWhereTheServiceWent) {
  ASSERT_NE(address, "");
  ::kill(server, SIGSTOP);
  const Outcome hung = run(bench({"--duration", "200ms", "--streams", "1"}));
  ::kill(server, SIGCONT);
  EXPECT_EQ(hung.exit_code, 3);
  EXPECT_THAT(hung.out + hung.err, HasSubstr(" unanswered")) << hung.out << hung.err;
}

}  // namespace
}  // namespace weir::cli_tests
