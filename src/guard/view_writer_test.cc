#include "guard/view_writer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <mutex>

namespace weir::guard {
namespace {

std::string view(std::uint64_t epoch) {
  ladder::MembershipView view;
  view.history = 1;
  view.epoch = epoch;
  view.self = "a";
  view.members = {{"a", 1, epoch, Instant{std::chrono::seconds(15)}}};
  return view.to_text();
}

class ViewWriterTest : public ::testing::Test {
 protected:
  ViewWriterTest() {
    std::string name = ::testing::TempDir() + "/weir-views-XXXXXX";
    root_ = ::mkdtemp(name.data());
    folder_.emplace(StateFolder::open(root_, "s").value());
  }
  ~ViewWriterTest() override { std::filesystem::remove_all(root_); }

  ViewWriter::Done done() {
    return [this](std::uint64_t epoch, const std::string& fault) {
      EXPECT_EQ(fault, "");
      std::lock_guard lock(mutex_);
      written_ = epoch;
      changed_.notify_all();
    };
  }
  bool written(std::uint64_t epoch) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return written_ == epoch; });
  }
  std::uint64_t found(const std::string& part) const {
    const auto read = folder_->part(part).read();
    return read && *read ? (*read)->epoch : 0;
  }

  std::string root_;
  std::optional<StateFolder> folder_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t written_ = 0;
};

// Until the new view stands, a start is to find the old one.
TEST_F(ViewWriterTest, EmptiesTheOldPlaceOnceTheNewOneIsFull) {
  ViewWriter writer(folder_->part("a"), done());
  writer.write(view(1), 1);
  ASSERT_TRUE(written(1));
  writer.move(folder_->part("b"));
  EXPECT_EQ(found("a"), 1U);
  writer.write(view(2), 2);
  ASSERT_TRUE(written(2));
  EXPECT_EQ(found("a"), 0U);
  EXPECT_EQ(found("b"), 2U);
}

TEST_F(ViewWriterTest, MovesAsOftenAsItIsToldAndLeavesNothingBehind) {
  ViewWriter writer(folder_->part("a"), done());
  for (std::uint64_t i = 1; i <= 50; ++i) {
    writer.move(folder_->part("p" + std::to_string(i % 7)));
    writer.write(view(i), i);
    if (i % 5 == 0) {
      ASSERT_TRUE(written(i));
    }
  }
  EXPECT_EQ(folder_->parts(), (std::vector<std::string>{"p1"}));
  EXPECT_EQ(found("p1"), 50U);
}

}  // namespace
}  // namespace weir::guard
