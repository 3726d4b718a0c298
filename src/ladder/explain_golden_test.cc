#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "ladder/explain.h"
#include "weir/policy.h"

// What `weir explain` says of the shipped examples, word for word.
// WEIR_UPDATE_GOLDEN=1 rewrites the expected texts; read the difference before it is committed.

namespace weir::ladder {
namespace {

using namespace std::chrono_literals;

const std::string kSource = WEIR_SOURCE_DIR;

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

void expect_golden(const std::string& name, const std::string& actual) {
  const std::string path = kSource + "/src/ladder/testdata/" + name;
  if (std::getenv("WEIR_UPDATE_GOLDEN") != nullptr) std::ofstream(path, std::ios::binary) << actual;
  EXPECT_EQ(actual, read(path));
}

Explanation explained(const std::string& example, const ExplainOptions& options) {
  const auto policy = Policy::load(kSource + "/examples/" + example);
  EXPECT_TRUE(policy) << policy.error().message;
  return explain(policy->model(), options).value();
}

TEST(Explain, TellsAStrangerWhatTheQuickstartDoes) {
  expect_golden("quickstart.txt", explain_text(explained("quickstart.yaml", {})));
}

TEST(Explain, TellsAStrangerWhatAFleetDoesInAnOutage) {
  const Explanation fleet = explained("fleet.yaml", {.workers = 3, .outage = 11s});
  expect_golden("fleet.txt", explain_text(fleet));
  expect_golden("fleet.json", explain_json(fleet));
}

TEST(Explain, KeepsToAHundredColumns) {
  std::istringstream lines(explain_text(explained("fleet.yaml", {.workers = 300, .outage = 7s})));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

}  // namespace
}  // namespace weir::ladder
