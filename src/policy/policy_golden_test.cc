#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "policy/load.h"

// Every testdata/NAME.yaml gets the faults and warnings of testdata/NAME.txt, word for word.
// WEIR_UPDATE_GOLDEN=1 rewrites the expected texts; read the difference before it is committed.

namespace weir::policy {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

std::string messages(const fs::path& path) {
  const Loaded loaded = load_text(read(path), path.filename().string());
  std::string out;
  for (const Fault& fault : loaded.faults) out += fault.text() + "\n";
  return out + (loaded.model ? "loads\n" : "refused\n");
}

std::vector<fs::path> files() {
  std::vector<fs::path> out;
  for (const auto& entry : fs::recursive_directory_iterator(WEIR_POLICY_TESTDATA))
    if (entry.path().extension() == ".yaml") out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

class PolicyMessages : public ::testing::TestWithParam<fs::path> {};

TEST_P(PolicyMessages, AreWordForWordWhatIsExpected) {
  fs::path expected = GetParam();
  expected.replace_extension(".txt");
  const std::string actual = messages(GetParam());
  if (std::getenv("WEIR_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(expected, std::ios::binary) << actual;
    return;
  }
  ASSERT_TRUE(fs::exists(expected)) << expected << " is missing";
  EXPECT_EQ(actual, read(expected));
  EXPECT_EQ(actual.find("hunter2"), std::string::npos) << "a password is shown";
}

INSTANTIATE_TEST_SUITE_P(Testdata, PolicyMessages, ::testing::ValuesIn(files()),
                         [](const auto& test) {
                           const bool nested = test.param.parent_path().filename() == "envoy";
                           return (nested ? "envoy_" : "") + test.param.stem().string();
                         });

}  // namespace
}  // namespace weir::policy
