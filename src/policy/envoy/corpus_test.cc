#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "policy/load.h"

// The configurations that envoyproxy/ratelimit ships and tests itself with: each gets the verdict
// of that project's own reader. Passed over where the files are not there.

namespace weir::policy {
namespace {

namespace fs = std::filesystem;

fs::path corpus() {
  if (const char* given = std::getenv("WEIR_CORPUS")) return fs::path(given) / "envoy-ratelimit";
  return fs::path(WEIR_SOURCE_DIR) / ".." / "shared" / "corpus" / "envoy-ratelimit";
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

class EnvoyCorpus : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::is_directory(corpus()))
      GTEST_SKIP() << "the configurations of envoyproxy/ratelimit are not at " << corpus();
  }
  static std::string verdict(const fs::path& path) {
    const Loaded loaded = load_text(bytes_of(path), path.filename().string());
    return loaded.model ? "loads" : loaded.faults.at(0).text();
  }
};

TEST_F(EnvoyCorpus, LoadsWhatItsOwnReaderLoads) {
  for (const char* name :
       {"basic_config", "metadata", "shadowmode_config", "share_threshold", "wildcard",
        "merge_domain_key1", "merge_domain_key2", "duplicate_domain"})
    EXPECT_EQ(verdict(corpus() / "config" / (std::string(name) + ".yaml")), "loads") << name;
  for (const char* folder : {"examples", "runtime"})
    for (const auto& file : fs::directory_iterator(corpus() / folder))
      EXPECT_EQ(verdict(file.path()), "loads") << file.path();
}

TEST_F(EnvoyCorpus, RefusesWhatItsOwnReaderRefuses) {
  for (const char* name :
       {"bad_limit_unit", "bad_yaml", "duplicate_key", "empty_domain", "empty_key",
        "misspelled_key", "misspelled_key2", "non_map_list", "non_string_key", "replaces_empty",
        "replaces_self", "unlimited_with_unit"})
    EXPECT_NE(verdict(corpus() / "config" / (std::string(name) + ".yaml")), "loads") << name;
}

TEST_F(EnvoyCorpus, MergesDomainsOnlyWhereAskedTo) {
  const fs::path folder =
      fs::temp_directory_path() / ("weir_corpus_test." + std::to_string(std::rand()));
  fs::create_directories(folder / "two");
  fs::create_directories(folder / "merged");
  for (const char* name : {"basic_config.yaml", "duplicate_domain.yaml"})
    fs::copy(corpus() / "config" / name, folder / "two");
  for (const char* name : {"merge_domain_key1.yaml", "merge_domain_key2.yaml"})
    fs::copy(corpus() / "config" / name, folder / "merged");
  EXPECT_FALSE(load_path((folder / "two").string()).model);
  EXPECT_FALSE(load_path((folder / "merged").string()).model);
  std::ofstream(folder / "weir.yaml") << "rls: {config: merged, merge_domains: true}\n";
  const Loaded merged = load_path((folder / "weir.yaml").string());
  EXPECT_TRUE(merged.model) << merged.faults.at(0).text();
  fs::remove_all(folder);
}

}  // namespace
}  // namespace weir::policy
