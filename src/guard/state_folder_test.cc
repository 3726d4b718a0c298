#include "guard/state_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace weir::guard {
namespace {

using namespace std::chrono_literals;

class StateFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "/weir-state-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  static std::string view(std::uint64_t epoch) {
    ladder::MembershipView view;
    view.history = 1;
    view.epoch = epoch;
    view.self = "a";
    view.members = {{"a", 1, epoch, Instant{15s}}};
    return view.to_text();
  }

  std::string root_;
};

using StateFolderStories = StateFolderTest;

TEST_F(StateFolderStories, ReadsWhatWasWrittenLastAndNothingBeforeThat) {
  const auto folder = StateFolder::open(root_ + "/weir", "redis://a weir");
  ASSERT_TRUE(folder.has_value()) << "it is made where it is not there";
  EXPECT_FALSE(folder->read());
  ASSERT_TRUE(folder->write(view(1)).has_value());
  ASSERT_TRUE(folder->write(view(2)).has_value());
  const auto again = StateFolder::open(root_ + "/weir", "redis://a weir");
  ASSERT_TRUE(again->read() && *again->read());
  EXPECT_EQ((*again->read())->epoch, 2U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(root_ + "/weir"), {}), 2)
      << "the view, and its lock";
}

TEST_F(StateFolderStories, HasPartsUnderOneLock) {
  const auto folder = StateFolder::open(root_, "s");
  ASSERT_TRUE(folder->part("a").write(view(1)).has_value());
  ASSERT_TRUE(folder->part("b").write(view(2)).has_value());
  std::ofstream(folder->part("c").path() + ".new.1") << "cut off";
  EXPECT_FALSE(folder->read()) << "they are not the whole";
  EXPECT_EQ((*folder->part("b").read())->epoch, 2U);
  std::vector<std::string> parts = folder->parts();
  std::sort(parts.begin(), parts.end());
  EXPECT_EQ(parts, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(StateFolder::open(root_, "other")->parts().empty());
  folder->part("a").remove();
  EXPECT_EQ(folder->parts(), (std::vector<std::string>{"b"}));
  EXPECT_FALSE(StateFolder::open(root_, "s")->part("b").alone());
}

TEST_F(StateFolderStories, IsOneProcesssAtATime) {
  auto first = StateFolder::open(root_, "s");
  EXPECT_TRUE(first->alone());
  EXPECT_FALSE(StateFolder::open(root_, "s")->alone());
  EXPECT_TRUE(StateFolder::open(root_, "other")->alone());
  const StateFolder moved = *std::move(first);
  EXPECT_FALSE(StateFolder::open(root_, "s")->alone());
}

TEST_F(StateFolderStories, IsFreeAgainWhenItsProcessIsGone) {
  {
    const auto first = StateFolder::open(root_, "s");
    EXPECT_FALSE(StateFolder::open(root_, "s")->alone());
  }
  EXPECT_TRUE(StateFolder::open(root_, "s")->alone());
}

TEST_F(StateFolderStories, KeepsTheViewsOfTwoStoresApart) {
  const auto a = StateFolder::open(root_, "redis://a weir");
  const auto b = StateFolder::open(root_, "redis://b weir");
  ASSERT_TRUE(a->write(view(1)).has_value());
  EXPECT_FALSE(b->read());
}

// A file that a release or a new password renames is a part that a restart in an outage lacks.
TEST_F(StateFolderStories, TheFileIsNamedByItsStoreAndByNothingOfWhoAsks) {
  const auto file = [&](const std::string& url, const std::string& prefix = "weir") {
    const std::string path = StateFolder::open(root_, StateFolder::name_of(url, prefix))->path();
    return path.substr(root_.size());
  };
  const std::string pinned = file("redis://10.0.0.7:6379/2");
  EXPECT_EQ(pinned, "/membership-19e59a09709b8389");
  EXPECT_EQ(file("redis://ada:hunter2@10.0.0.7:6379/2"), pinned);
  EXPECT_EQ(file("redis://:p%40ss@10.0.0.7:6379/2"), pinned);
  EXPECT_NE(file("redis://10.0.0.7:6379/3"), pinned);
  EXPECT_NE(file("redis://10.0.0.8:6379/2"), pinned);
  EXPECT_NE(file("redis://10.0.0.7:6379/2", "other"), pinned);
}

TEST_F(StateFolderStories, WhatIsNoViewIsAnErrorAndNoView) {
  const auto folder = StateFolder::open(root_, "s");
  const std::string whole = view(7);
  for (const std::string& text : {std::string(), std::string("hello\n"), whole.substr(0, 40),
                                  whole + whole, std::string(3 << 20, 'x')}) {
    std::ofstream(folder->path(), std::ios::trunc) << text;
    ASSERT_TRUE(folder->read());
    EXPECT_FALSE(folder->read()->has_value());
  }
}

TEST_F(StateFolderStories, AFailedWriteLeavesNoViewThatOthersNoLongerCountOn) {
  const auto folder = StateFolder::open(root_, "s");
  ASSERT_TRUE(folder->write(view(1)).has_value());
  // A folder stands where the new file is to be written.
  ASSERT_EQ(::mkdir((folder->path() + ".new." + std::to_string(::getpid())).c_str(), 0700), 0);
  const auto written = folder->write(view(2));
  ASSERT_FALSE(written.has_value());
  EXPECT_NE(written.error().message.find(root_), std::string::npos);
  EXPECT_FALSE(folder->read());
}

TEST_F(StateFolderStories, AFolderThatCannotBeIsRefusedAtOnce) {
  const auto deep = StateFolder::open(root_ + "/no/such", "s");
  ASSERT_FALSE(deep.has_value());
  EXPECT_EQ(deep.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(deep.error().message.find("store.workers.state"), std::string::npos);
  std::ofstream(root_ + "/file") << "x";
  EXPECT_FALSE(StateFolder::open(root_ + "/file", "s").has_value());
}

}  // namespace
}  // namespace weir::guard
