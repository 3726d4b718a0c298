#include "policy/load.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "policy/match.h"
#include "weir/policy.h"

namespace weir::policy {
namespace {

namespace fs = std::filesystem;

class LoadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() /
            ("weir_load_test." + std::to_string(getpid()) + "." +
             ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(root_ / "domains");
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& name, const std::string& text) {
    std::ofstream(root_ / name, std::ios::binary) << text;
  }
  static std::string domain(const std::string& name, const std::string& key,
                            const std::string& rest = "") {
    return "domain: " + name + "\n" + rest + "descriptors:\n  - {key: " + key +
           ", rate_limit: {unit: minute, requests_per_unit: 5}}\n";
  }
  Loaded load(const std::string& name = "") { return load_path((root_ / name).string()); }
  static std::string problem(const Loaded& loaded) {
    return loaded.model ? "loads" : loaded.faults.empty() ? "no fault" : loaded.faults[0].text();
  }

  fs::path root_;
};

constexpr const char* kNative = "routes: {r: {limits: [5 per minute], protects: capacity}}\n";

TEST_F(LoadTest, ReadsOneFileOfADomain) {
  write("a.yaml", domain("shop", "user"));
  const Loaded loaded = load("a.yaml");
  ASSERT_TRUE(loaded.model) << problem(loaded);
  ASSERT_EQ(loaded.model->domains.size(), 1u);
  EXPECT_EQ(loaded.model->domains[0].name, "shop");
  EXPECT_EQ(loaded.model->matcher->by_domain("shop"), 0u);
  EXPECT_FALSE(loaded.model->matcher->by_domain("other"));
  EXPECT_EQ(loaded.model->text_sha256.size(), 64u);
}

TEST_F(LoadTest, ReadsADirectoryByNameAndLeavesTheRest) {
  write("domains/b.yaml", domain("second", "user"));
  write("domains/a.yml", domain("first", "user"));
  write("domains/.hidden.yaml", "not yaml: [");
  write("domains/notes.txt", "not yaml: [");
  fs::create_directories(root_ / "domains/..data");
  const Loaded loaded = load("domains");
  ASSERT_TRUE(loaded.model) << problem(loaded);
  ASSERT_EQ(loaded.model->domains.size(), 2u);
  EXPECT_EQ(loaded.model->domains[0].name, "first");
  EXPECT_EQ(loaded.model->files.size(), 2u);
}

TEST_F(LoadTest, FollowsTheLinksOfAMountedConfiguration) {
  fs::create_directories(root_ / "..2024");
  write("..2024/a.yaml", domain("shop", "user"));
  fs::create_directory_symlink("../..2024", root_ / "domains/..data");
  fs::create_symlink("..data/a.yaml", root_ / "domains/a.yaml");
  const Loaded loaded = load("domains");
  ASSERT_TRUE(loaded.model) << problem(loaded);
  EXPECT_EQ(loaded.model->domains.size(), 1u);
}

TEST_F(LoadTest, ReadsTheDomainsThatAPolicyNames) {
  write("weir.yaml", std::string(kNative) +
                         "rls: {config: domains, protects: security, rls_refusal: unavailable, "
                         "count_denied: true}\n");
  write("domains/a.yaml", domain("shop", "user"));
  write("domains/b.yaml", domain("loud", "user", "when_store_fails: open\n"));
  const Loaded loaded = load("weir.yaml");
  ASSERT_TRUE(loaded.model) << problem(loaded);
  const Model& model = *loaded.model;
  EXPECT_EQ(model.routes.size(), 1u);
  ASSERT_EQ(model.domains.size(), 2u);
  EXPECT_TRUE(model.rls.refusal_is_error);
  EXPECT_TRUE(model.rls.count_denied);
  EXPECT_EQ(model.domains[0].scopes[0].route.when_store_fails, FailurePolicy::closed);
  EXPECT_EQ(model.domains[1].scopes[0].route.when_store_fails, FailurePolicy::open);
  EXPECT_TRUE(undecided_domains(model).empty());
}

TEST_F(LoadTest, KnowsWhichDomainsSayNothing) {
  write("domains/a.yaml", domain("shop", "user"));
  write("domains/b.yaml", domain("safe", "user", "protects: security\n"));
  write("domains/c.yaml", "domain: empty\ndescriptors:\n");
  const auto policy = Policy::load((root_ / "domains").string());
  ASSERT_TRUE(policy) << policy.error().message;
  EXPECT_EQ(undecided_domains(policy->model()), std::vector<std::string>{"shop"});
  const Policy decided = policy->with_protects(Protects::capacity);
  EXPECT_TRUE(undecided_domains(decided.model()).empty());
  EXPECT_EQ(decided.model().domains[0].scopes[0].route.when_store_fails, FailurePolicy::bounded);
  EXPECT_EQ(decided.model().domains[1].scopes[0].route.when_store_fails, FailurePolicy::closed);
}

TEST_F(LoadTest, RefusesADomainInTwoFilesUnlessTheyAreMerged) {
  write("domains/a.yaml", domain("shop", "user"));
  write("domains/b.yaml", domain("shop", "account"));
  const Loaded apart = load("domains");
  ASSERT_FALSE(apart.model);
  EXPECT_NE(problem(apart).find("b.yaml: domain: 'shop' stands in"), std::string::npos)
      << problem(apart);
  EXPECT_NE(problem(apart).find("a.yaml"), std::string::npos);

  write("weir.yaml", std::string(kNative) + "rls: {config: domains, merge_domains: true}\n");
  const Loaded merged = load("weir.yaml");
  ASSERT_TRUE(merged.model) << problem(merged);
  ASSERT_EQ(merged.model->domains.size(), 1u);
  EXPECT_EQ(merged.model->domains[0].limits.size(), 2u);
  EXPECT_EQ(merged.model->domains[0].files.size(), 2u);

  write("domains/c.yaml", domain("shop", "user"));
  const Loaded twice = load("weir.yaml");
  ASSERT_FALSE(twice.model);
  EXPECT_NE(problem(twice).find("'user' stands twice"), std::string::npos) << problem(twice);
}

TEST_F(LoadTest, IsAllOrNothingAndReportsTheFaultsOfEveryFile) {
  write("domains/a.yaml", domain("good", "user"));
  write("domains/b.yaml", "domain: bad\ndescriptors: [{kay: x}]\n");
  write("domains/c.yaml", "'''");
  const Loaded loaded = load("domains");
  EXPECT_FALSE(loaded.model);
  std::string all;
  for (const Fault& fault : loaded.faults) all += fault.text() + "\n";
  EXPECT_NE(all.find("b.yaml:2:16: descriptors[0].kay: is no field"), std::string::npos) << all;
  EXPECT_NE(all.find("c.yaml:"), std::string::npos) << all;
}

TEST_F(LoadTest, FindsThePlaceOfAFieldThatIsWrongOnlyWithOthers) {
  const auto texts = [this](const std::string& name, const std::string& message) {
    std::string out;
    for (const Fault& fault :
         faults_of((root_ / name).string(), {ErrorCode::failed_precondition, message}))
      out += fault.text().substr(root_.string().size() + 1) + "|";
    return out;
  };
  const std::string native =
      "store:\n  url: redis://h\n  breaker: {failures: 9}\njournal: j\n" + std::string(kNative);
  write("weir.yaml", native);
  EXPECT_EQ(texts("weir.yaml", "store.breaker.failures: a\nstore.deadline: b c\njournal.ledger: d"),
            "weir.yaml:3:23: store.breaker.failures: a|weir.yaml:2:3: store.deadline: b c|"
            "weir.yaml:4:10: journal.ledger: d|");
  // Of what the file does not have, or does not name, there is no place.
  EXPECT_EQ(texts("weir.yaml", "rls.keys: a\nroute 'x' has no: b"),
            "weir.yaml: rls.keys: a|weir.yaml: route 'x' has no: b|");
  write("domains/a.yaml", domain("shop", "user"));
  write("domains/native.yaml", native);
  EXPECT_EQ(texts("domains", "store.url: a"), "domains/native.yaml:2:8: store.url: a|");
  EXPECT_EQ(texts("missing.yaml", "store.url: a"), "missing.yaml: store.url: a|");
}

TEST_F(LoadTest, RefusesTwoNativePoliciesAndEmptyOrMissingDirectories) {
  write("domains/a.yaml", kNative);
  EXPECT_TRUE(load("domains").model);
  write("domains/b.yaml", kNative);
  EXPECT_NE(problem(load("domains")).find("is a native policy, as"), std::string::npos);
  fs::create_directories(root_ / "empty");
  EXPECT_NE(problem(load("empty")).find("holds no file"), std::string::npos);
  EXPECT_TRUE(load("missing").unreadable);
  write("weir.yaml", std::string(kNative) + "rls: {config: missing}\n");
  EXPECT_NE(problem(load("weir.yaml")).find("cannot be read"), std::string::npos);
  EXPECT_FALSE(load_text(std::string(kNative) + "rls: {config: x}\n", "text").model);
}

}  // namespace
}  // namespace weir::policy
