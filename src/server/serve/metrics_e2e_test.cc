#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "server/serve/served_process.h"

namespace weir::server {
namespace {

constexpr const char* kMeasured =
    "inputs: [user]\n"
    "routes:\n"
    "  login: {limits: [5 per minute by user], protects: security}\n"
    "  trial: {limits: [{requests: 1, per: minute, by: [user], shadow: true}], protects: "
    "nothing}\n"
    "breakers: {payments: {}}\n"
    "concurrency: {reports: {limit: 3}}\n";
constexpr const char* kWithoutTrial =
    "inputs: [user]\n"
    "routes:\n"
    "  login: {limits: [5 per minute by user], protects: security}\n";

std::string check(const std::string& route, const std::string& descriptors) {
  return "{\"route\":\"" + route + "\",\"descriptors\":" + descriptors + "}";
}

double sum_of(const std::string& text, const std::string& start) {
  double sum = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(start)) sum += std::stod(line.substr(line.rfind(' ')));
  }
  return sum;
}

// Totals that counted what had not happened, or missed what had, hid an outage for hours.
TEST(ServedMetrics, AddUpToWhatWasAnsweredAcrossAReload) {
  ServedProcess weir(kMeasured);
  int answers = 0;
  std::map<int, int> by_status;
  const auto ask = [&](const std::string& body) {
    ++by_status[weir.http("POST", "/v1/check", body).status];
    ++answers;
  };
  for (int i = 0; i < 7; ++i) ask(check("login", "{\"user\":\"ada\"}"));
  for (int i = 0; i < 2; ++i) ask(check("trial", "{\"user\":\"ada\"}"));
  ask(check("nowhere", "{}"));
  ask(check("login", "{}"));
  weir.write_policy(kWithoutTrial);
  ASSERT_TRUE(ServedProcess::within(
      [&] { return sum_of(weir.admin("GET", "/metrics").body, "weir_policy_generation") == 2; }));
  ask(check("login", "{\"user\":\"eve\"}"));
  weir.http("POST", "/v1/check", "this is no decision");
  weir.http("GET", "/" + std::string(10'000, 'x'));

  const std::string text = weir.admin("GET", "/metrics").body;
  EXPECT_EQ(sum_of(text, "weir_decisions_total{"), answers);
  const auto verdict = [&](const std::string& route, const std::string& name) {
    return sum_of(text, "weir_decisions_total{route=\"" + route + "\",verdict=\"" + name);
  };
  EXPECT_EQ(verdict("login", "allowed"), 7);
  EXPECT_EQ(verdict("login", "limited"), 2);
  EXPECT_EQ(verdict("trial", "allowed"), 2) << "a route that a reload dropped keeps its counts";
  EXPECT_EQ(verdict("", "refused"), 1);
  EXPECT_EQ(by_status[200], 9);
  EXPECT_EQ(by_status[429], 2);
  EXPECT_EQ(by_status[404], 1);
  EXPECT_EQ(sum_of(text, "weir_absent_values_total{route=\"login\"}"), 1);
  EXPECT_EQ(sum_of(text, "weir_shadow_total{route=\"trial\",verdict=\"limited\"}"), 1);
  EXPECT_EQ(sum_of(text, "weir_http_rejected_total{bound=\"target_bytes\"}"), 1);
  EXPECT_EQ(sum_of(text, "weir_connections_total "), answers + 2);
  EXPECT_GE(sum_of(text, "weir_known_keys "), 1);
}

TEST(ServedMetrics, ArePassedByPromtool) {
  if (std::system("command -v promtool >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "promtool is not installed (Debian package prometheus)";
  }
  ServedProcess weir(kMeasured);
  weir.http("POST", "/v1/check", check("login", "{\"user\":\"ada\"}"));
  const std::string text = weir.admin("GET", "/metrics").body;
  std::FILE* promtool = popen("promtool check metrics >&2", "w");
  ASSERT_NE(promtool, nullptr);
  EXPECT_EQ(std::fwrite(text.data(), 1, text.size(), promtool), text.size());
  EXPECT_EQ(pclose(promtool), 0) << text;
}

TEST(ServedMetrics, StandInTheReference) {
  ServedProcess weir(kMeasured);
  const std::string text = weir.admin("GET", "/metrics").body;
  std::ostringstream page;
  page << std::ifstream(WEIR_SOURCE_DIR "/docs/reference/metrics.md").rdbuf();
  const std::regex family("# TYPE (\\S+) ");
  int families = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), family), end; it != end; ++it) {
    ++families;
    EXPECT_NE(page.str().find("`" + (*it)[1].str()), std::string::npos) << (*it)[1];
  }
  EXPECT_GT(families, 10);
}

}  // namespace
}  // namespace weir::server
