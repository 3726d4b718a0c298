// The page of a report as a browser shows it: no script fails, and every figure is the JSON's.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <regex>

#include "program.h"

namespace weir::cli_tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kDrawn = R"(
store:
  url: redis://127.0.0.1:1
  deadline: 1s
  workers: {of: 1, index: 0}
  breaker: {failures: 3, cooldown: 100ms, max_cooldown: 200ms}
  recovery: {steps: 2, step: 50ms}
inputs: [user]
routes:
  login:
    limits: [{requests: 20, per: hour, by: [user], name: "</script><b>5 & more"}]
    protects: security
  search:
    limits: [{requests: 20, per: hour, by: [user]}]
    protects: capacity
)";

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class DrillPage : public ::testing::Test {
 protected:
  void SetUp() override {
    if (run({"sh", "-c", "command -v chromium"}).exit_code != 0) {
      std::cout << "chromium is not installed: the drill's page is not looked at here\n";
      GTEST_SKIP() << "chromium is not installed (./dev setup page)";
    }
  }
  // The page after its scripts have run.
  Outcome shown(const std::string& page) {
    return run({"chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
                "--disable-background-networking", "--disable-component-update", "--disable-sync",
                "--user-data-dir=" + folder_.path() + "/browser", "--enable-logging=stderr",
                "--timeout=20000", "--dump-dom", "file://" + folder_.path() + "/" + page});
  }
  Folder folder_;
};

TEST_F(DrillPage, DrawsItsPicturesAndShowsTheFiguresOfTheJson) {
  folder_.write("weir.yaml", kDrawn);
  folder_.write("short.yaml", R"(
about: Away, and <i>back</i>.
phases:
  - {name: before, for: 1s}
  - {name: away, for: 1s, store: refuse, reset: true}
  - {name: after, for: 3s}
)");
  const Outcome drill =
      weir({"drill", "weir.yaml", "short.yaml", "--report", "pages"}, {.folder = folder_.path()});
  ASSERT_EQ(drill.exit_code, 0) << drill.out << drill.err;
  const Outcome page = shown("pages/short.html");
  ASSERT_EQ(page.exit_code, 0) << page.err;
  EXPECT_THAT(page.err, Not(HasSubstr("CONSOLE")));
  const std::string head = page.out.substr(0, page.out.find("<head>"));
  EXPECT_THAT(head, HasSubstr("data-charts=\"5\"")) << "verdicts, latency, rungs and two rules";
  EXPECT_THAT(head, Not(HasSubstr("data-errors")));
  // What a policy says is text, never a part of the page.
  EXPECT_EQ(page.out.find("<b>5"), page.out.npos);
  EXPECT_NE(page.out.find("Away, and &lt;i&gt;back&lt;/i&gt;."), page.out.npos);

  const auto report = nlohmann::json::parse(read(folder_.path() + "/pages/short.json"));
  const std::regex figure(R"re(data-figure="([^"]+)">([0-9]+)</td>)re");
  std::size_t figures = 0;
  for (std::sregex_iterator each(page.out.begin(), page.out.end(), figure), end; each != end;
       ++each) {
    const std::string at = (*each)[1];
    const auto& value = report.at(nlohmann::json::json_pointer(at));
    EXPECT_EQ(value.get<std::uint64_t>(), std::stoull((*each)[2])) << at;
    ++figures;
  }
  // Three phases of two routes, each with two kinds of clients at least, eight figures a row.
  EXPECT_GE(figures, 3U * 2U * 3U * 8U);
}

TEST_F(DrillPage, AScriptThatFailsWouldBeSeen) {
  folder_.write("bad.html",
                "<!doctype html><html><head></head><body><script>throw new Error('no')"
                "</script></body></html>");
  EXPECT_THAT(shown("bad.html").err, HasSubstr("CONSOLE"));
}

}  // namespace
}  // namespace weir::cli_tests
