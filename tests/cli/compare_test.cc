// `weir compare` between servers of ours: alike, different, and not there.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>

#include "program.h"

namespace weir::cli_tests {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kOld = R"(domain: shop
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 5}
  - key: user
    value: vip-*
    rate_limit: {unit: day, requests_per_unit: 50}
  - key: path
    value: /login
    descriptors:
      - key: remote_address
        rate_limit: {unit: hour, requests_per_unit: 2}
  - key: free
    rate_limit: {unlimited: true}
)";

// `weir serve` on a free port.
class Server {
 public:
  explicit Server(const std::string& domain) {
    folder_.write("shop.yaml", domain);
    process_ = ::fork();
    if (process_ == 0) {
      (void)std::freopen((folder_.path() + "/out").c_str(), "w", stdout);
      (void)std::freopen((folder_.path() + "/err").c_str(), "w", stderr);
      const std::string policy = folder_.path() + "/shop.yaml";
      ::execl(WEIR_PROGRAM, WEIR_PROGRAM, "serve", policy.c_str(), "--http", "off", "--admin",
              "off", "--grpc", "127.0.0.1:0", nullptr);
      std::_Exit(127);
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (address_.empty() && std::chrono::steady_clock::now() < end) {
      std::ostringstream said;
      said << std::ifstream(folder_.path() + "/out").rdbuf();
      const std::string text = said.str();
      const std::size_t at = text.find("  grpc   ");
      if (at != std::string::npos && text.find('\n', at) != std::string::npos) {
        address_ = text.substr(at + 9, text.find('\n', at) - at - 9);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    EXPECT_NE(address_, "");
  }
  ~Server() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const std::string& address() const { return address_; }
  std::string policy() const { return folder_.path() + "/shop.yaml"; }
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }

 private:
  Folder folder_;
  pid_t process_ = -1;
  std::string address_;
};

std::string changed(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(Compare, SaysThatTwoServersAnswerAlikeAndTakesNothing) {
  Server old_one(kOld);
  Server new_one(kOld);
  for (int i = 0; i < 2; ++i) {
    const Outcome found =
        weir({"compare", old_one.policy(), "--rls", old_one.address(), "--rls", new_one.address()});
    EXPECT_EQ(found.exit_code, 0) << found.err;
    EXPECT_EQ(found.out, "4 requests, answered alike\n");
  }
  const Outcome left = weir({"check", "--rls", old_one.address(), "shop", "user=weir-compare"});
  EXPECT_THAT(left.out, HasSubstr("4 of 5 left")) << "it had taken nothing";
  // Budgets of their own: hits are taken of both alike.
  const Outcome taken =
      weir({"compare", "--rls", old_one.address(), "--rls", new_one.address(), "--request",
            "shop user=ada path=/login,remote_address=192.0.2.7", "--hits", "2"});
  EXPECT_EQ(taken.out, "1 request, answered alike\n") << taken.err;
  EXPECT_THAT(weir({"check", "--rls", new_one.address(), "shop", "user=ada"}).out,
              HasSubstr("2 of 5 left"));
}

TEST(Compare, SaysWhereTwoServersAnswerOtherwise) {
  Server old_one(kOld);
  Server new_one(changed(changed(kOld, "requests_per_unit: 5}", "requests_per_unit: 7}"),
                         "unit: hour", "unit: day"));
  const Outcome found =
      weir({"compare", old_one.policy(), "--rls", old_one.address(), "--rls", new_one.address()});
  EXPECT_EQ(found.exit_code, 1) << found.err;
  EXPECT_THAT(found.out,
              StartsWith("shop user=weir-compare\n  limit 5 per DAY there, 7 per DAY here\n"
                         "  remaining 5 there, 7 here\n"
                         "shop path=/login,remote_address=weir-compare\n"
                         "  limit 2 per HOUR there, 2 per DAY here\n"));
  EXPECT_THAT(found.out, HasSubstr("\n2 of 4 requests answered otherwise\n"));
  const Outcome json = weir({"compare", "--rls", old_one.address(), "--rls", new_one.address(),
                             "--request", "shop user=ada free=x", "--json"});
  EXPECT_EQ(json.exit_code, 1);
  EXPECT_EQ(nlohmann::json::parse(json.out),
            nlohmann::json::parse(
                R"({"request":"shop user=ada free=x","same":false,"differences":[)"
                R"({"descriptor":"user=ada","field":"limit","old":"5 per DAY","new":"7 per DAY"},)"
                R"({"descriptor":"user=ada","field":"remaining","old":"5","new":"7"}]})"));
}

TEST(Compare, ReadsRequestsFromAFile) {
  Server old_one(kOld);
  Server new_one(kOld);
  std::ofstream(old_one.path("requests")) << "# those that matter\n\nshop user=ada\nshop free=x\n";
  const Outcome found = weir({"compare", "--rls", old_one.address(), "--rls", new_one.address(),
                              "--requests", old_one.path("requests")});
  EXPECT_EQ(found.out, "2 requests, answered alike\n") << found.err;
  std::ofstream(old_one.path("requests")) << "shop user=ada\nshop\n";
  const Outcome wrong = weir({"compare", "--rls", old_one.address(), "--rls", new_one.address(),
                              "--requests", old_one.path("requests")});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("requests:2: is no request"));
}

TEST(Compare, SaysWhatItCannotDo) {
  Server server(kOld);
  const std::string& there = server.address();
  struct Case {
    std::vector<std::string> words;
    int exit_code;
    const char* says;
  };
  for (const Case& each : std::vector<Case>{
           {{"compare", "--request", "shop user=ada"}, 2, "--rls names the old service"},
           {{"compare", "--rls", there}, 2, "nothing is asked"},
           {{"compare", "--rls", there, "--request", "shop"}, 2, "--request is 'shop'"},
           {{"compare", "--rls", there, "--request", "s a=b", "--hits", "x"}, 2, "--hits is 'x'"},
           {{"compare", "--rls", there, "--request", "s a=b", "--one-budget"}, 2, "--one-budget"},
           {{"compare", "--rls", there, "--request", "s a=b", "--shadow"}, 2, "--shadow"},
           {{"compare", "--rls", there, "--rls", there, "--rls", there, "--request", "s a=b"},
            2,
            "--rls names the old service"},
           {{"compare", "--rls", there, "--rls", "127.0.0.1:1", "--request", "shop user=ada"},
            3,
            "127.0.0.1:1"},
       }) {
    const Outcome outcome = weir(each.words);
    EXPECT_EQ(outcome.exit_code, each.exit_code) << each.says;
    EXPECT_THAT(outcome.err, HasSubstr(each.says));
  }
}

}  // namespace
}  // namespace weir::cli_tests
