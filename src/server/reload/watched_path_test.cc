#include "server/reload/watched_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace weir::server {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::Not;

class WatchedPath : public ::testing::Test {
 protected:
  WatchedPath() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::canonical(::testing::TempDir()) /
            ("weir_path_" + std::to_string(::getpid()) + test->name());
    fs::create_directories(root_);
  }
  ~WatchedPath() override { fs::remove_all(root_); }
  std::string at(const std::string& name) const { return (root_ / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(at(name)).parent_path());
    std::ofstream(at(name)) << text;
  }
  fs::path root_;
};

TEST_F(WatchedPath, OfAPlainFileIsItsDirectory) {
  write("a/weir.yaml", "x");
  EXPECT_THAT(directories_on_the_way(at("a/weir.yaml")), Contains(at("a")));
  EXPECT_THAT(directories_on_the_way(at("a/weir.yaml")), Not(Contains(at(""))));
  EXPECT_THAT(directories_on_the_way(at("a/absent.yaml")), Contains(at("a")));
}

TEST_F(WatchedPath, FollowsEveryLinkOnTheWay) {
  // What Kubernetes mounts: weir.yaml -> ..data/weir.yaml, ..data -> ..2024_01.
  write("mount/..2024_01/weir.yaml", "x");
  fs::create_directory_symlink("..2024_01", at("mount/..data"));
  fs::create_symlink("..data/weir.yaml", at("mount/weir.yaml"));
  fs::create_directory_symlink(at("mount"), at("current"));
  const auto found = directories_on_the_way(at("current/weir.yaml"));
  EXPECT_THAT(found, Contains(root_.string()));
  EXPECT_THAT(found, Contains(at("mount")));
  EXPECT_THAT(found, Contains(at("mount/..2024_01")));
}

TEST_F(WatchedPath, EndsOnALoop) {
  fs::create_symlink(at("b"), at("a"));
  fs::create_symlink(at("a"), at("b"));
  EXPECT_THAT(directories_on_the_way(at("a")), Contains(root_.string()));
  EXPECT_EQ(signature_of(at("a")), "");
}

TEST_F(WatchedPath, SignatureMovesWithTheFile) {
  EXPECT_EQ(signature_of(at("f")), "");
  write("f", "one");
  const std::string one = signature_of(at("f"));
  EXPECT_NE(one, "");
  EXPECT_EQ(signature_of(at("f")), one);
  write("f", "longer");
  EXPECT_NE(signature_of(at("f")), one);
}

TEST_F(WatchedPath, SignatureOfADirectoryMovesWithItsFiles) {
  write("d/a.yaml", "one");
  const std::string one = signature_of(at("d"));
  write("d/b.yaml", "two");
  const std::string two = signature_of(at("d"));
  EXPECT_NE(one, two);
  fs::remove(at("d/b.yaml"));
  EXPECT_EQ(signature_of(at("d")), one);
}

}  // namespace
}  // namespace weir::server
