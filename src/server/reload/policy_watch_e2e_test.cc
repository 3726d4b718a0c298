#include "server/reload/policy_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "server/lane.h"

namespace weir::server {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kLongest = 30s;

enum class By { events, polling };

// Watches a file and remembers what it held each time a change was told.
class Watched : public ::testing::TestWithParam<By> {
 protected:
  Watched() {
    std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    for (char& c : name) {
      if (c == '/') c = '_';
    }
    root_ =
        fs::canonical(::testing::TempDir()) / ("weir_watch_" + std::to_string(::getpid()) + name);
    fs::create_directories(root_);
  }
  ~Watched() override {
    lane_.stop();
    watch_.reset();
    fs::remove_all(root_);
  }

  std::string at(const std::string& name) const { return (root_ / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(at(name)).parent_path());
    std::ofstream(at(name)) << text;
  }
  void start(const std::string& name, Nanos patience = 1s) {
    const PolicyWatchOptions options{.quiet = 20ms,
                                     .patience = patience,
                                     .poll = GetParam() == By::polling ? 20ms : Nanos(1h),
                                     .inotify = GetParam() == By::events};
    path_ = at(name);
    watch_ = std::make_unique<PolicyWatch>(
        lane_, path_, [this] { changed(); }, options);
    EXPECT_EQ(watch_->told(), GetParam() == By::events);
    lane_.start();
  }
  // Until a change was told after which the file held `text`.
  bool told(const std::string& text) {
    std::unique_lock lock(mutex_);
    return moved_.wait_for(lock, kLongest, [&] { return held_ == text; });
  }
  int changes() {
    std::lock_guard lock(mutex_);
    return changes_;
  }

  fs::path root_;

 private:
  void changed() {
    std::string now = "(directory)";
    if (!fs::is_directory(path_)) {
      std::ifstream in(path_);
      now = std::string(std::istreambuf_iterator<char>(in), {});
    }
    std::lock_guard lock(mutex_);
    held_ = now;
    ++changes_;
    moved_.notify_all();
  }

  Lane lane_;
  std::unique_ptr<PolicyWatch> watch_;
  std::string path_;
  std::mutex mutex_;
  std::condition_variable moved_;
  std::string held_ = "(nothing told)";
  int changes_ = 0;
};

using PolicyWatchTest = Watched;

TEST_P(PolicyWatchTest, TellsOfAWriteInPlace) {
  write("weir.yaml", "one");
  start("weir.yaml");
  write("weir.yaml", "two!");
  EXPECT_TRUE(told("two!"));
  write("weir.yaml", "three");
  EXPECT_TRUE(told("three"));
}

TEST_P(PolicyWatchTest, TellsOfARename) {
  write("weir.yaml", "one");
  start("weir.yaml");
  write("weir.yaml.new", "two!");
  fs::rename(at("weir.yaml.new"), at("weir.yaml"));
  EXPECT_TRUE(told("two!"));
}

TEST_P(PolicyWatchTest, TellsOfAFileThatGoesAndComes) {
  write("weir.yaml", "one");
  start("weir.yaml");
  fs::remove(at("weir.yaml"));
  EXPECT_TRUE(told(""));
  write("weir.yaml", "back");
  EXPECT_TRUE(told("back"));
}

TEST_P(PolicyWatchTest, TellsOfTheSwapThatKubernetesMakes) {
  write("mount/..1/weir.yaml", "one");
  fs::create_directory_symlink("..1", at("mount/..data"));
  fs::create_symlink("..data/weir.yaml", at("mount/weir.yaml"));
  start("mount/weir.yaml");
  for (int i = 2; i < 5; ++i) {
    const std::string next = ".." + std::to_string(i);
    write("mount/" + next + "/weir.yaml", "policy " + next);
    fs::create_directory_symlink(next, at("mount/..data_tmp"));
    fs::rename(at("mount/..data_tmp"), at("mount/..data"));
    fs::remove_all(at("mount/.." + std::to_string(i - 1)));
    EXPECT_TRUE(told("policy " + next));
  }
}

TEST_P(PolicyWatchTest, TellsOfASwapOfTheDirectoryItself) {
  write("releases/1/weir.yaml", "one");
  write("releases/2/weir.yaml", "two!");
  fs::create_directory_symlink("releases/1", at("current"));
  start("current/weir.yaml");
  fs::create_directory_symlink("releases/2", at("next"));
  fs::rename(at("next"), at("current"));
  EXPECT_TRUE(told("two!"));
}

TEST_P(PolicyWatchTest, TellsOfAFileInADirectory) {
  write("policies/a.yaml", "a");
  start("policies");
  write("policies/b.yaml", "b");
  EXPECT_TRUE(told("(directory)"));
}

INSTANTIATE_TEST_SUITE_P(Both, PolicyWatchTest, ::testing::Values(By::events, By::polling),
                         [](const auto& each) {
                           return each.param == By::events ? "Events" : "Polling";
                         });

using PolicyWatchEvents = Watched;

TEST_P(PolicyWatchEvents, WaitsForAWriterThatTakesItsTime) {
  write("weir.yaml", "one");
  start("weir.yaml", 1h);
  {
    std::ofstream slow(at("weir.yaml"));
    slow << "half" << std::flush;
    // Longer than `quiet`: what is told now, if anything, would be half a file.
    std::this_thread::sleep_for(200ms);
    EXPECT_EQ(changes(), 0);
    slow << " and half";
  }
  EXPECT_TRUE(told("half and half"));
  EXPECT_EQ(changes(), 1);
}

// Half of a file of domains may be a file of fewer limits.
TEST_P(PolicyWatchEvents, WaitsForAWriterInADirectoryToo) {
  write("policies/a.yaml", "a");
  write("policies/b.yaml", "b");
  fs::create_directory_symlink("policies", at("current"));
  start("current", 1h);
  {
    std::ofstream slow(at("policies/a.yaml"));
    slow << "half" << std::flush;
    write("policies/b.yaml", "all of it");
    std::ofstream swap(at("policies/.a.yaml.swp"));
    swap << "an editor's, which it keeps open" << std::flush;
    std::this_thread::sleep_for(200ms);
    EXPECT_EQ(changes(), 0);
    slow.close();
    EXPECT_TRUE(told("(directory)"));
  }
}

TEST_P(PolicyWatchEvents, TellsAllTheSameOfAWriterThatNeverCloses) {
  write("weir.yaml", "one");
  start("weir.yaml");
  std::ofstream open(at("weir.yaml"));
  open << "never closed" << std::flush;
  EXPECT_TRUE(told("never closed"));
}

INSTANTIATE_TEST_SUITE_P(Only, PolicyWatchEvents, ::testing::Values(By::events),
                         [](const auto&) { return "Events"; });

}  // namespace
}  // namespace weir::server
