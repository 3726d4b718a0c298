#include "render/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "testing/manual_clock.h"

namespace weir::render {
namespace {

using namespace std::chrono_literals;

class Kept final : public LogSink {
 public:
  bool write(std::string_view line) noexcept override {
    if (full) return false;
    lines.emplace_back(line);
    return true;
  }
  bool full = false;
  std::vector<std::string> lines;
};

struct LogLines : ::testing::Test {
  Kept sink;
  weir::testing::ManualClock clock{Instant(1'769'860'800s + 7ms)};
};

TEST_F(LogLines, WritesOneLineWithUnitsInNames) {
  Log log(sink, clock);
  log.write(LogLevel::info, "policy_loaded",
            {{"generation", std::uint64_t{2}},
             {"file", "weir.yaml"},
             {"took", Nanos(1500us)},
             {"degraded", false}});
  ASSERT_EQ(sink.lines.size(), 1U);
  EXPECT_EQ(sink.lines[0],
            "time=2026-01-31T12:00:00.007Z level=info event=policy_loaded generation=2 "
            "file=weir.yaml took_ms=1.5 degraded=false\n");
}

TEST_F(LogLines, WritesDurationsInWholeMicroseconds) {
  Log log(sink, clock);
  log.write(LogLevel::info, "x",
            {{"took", Nanos(2'000'192'186)}, {"skew", Nanos(-1'999)}, {"least", Nanos(999)}});
  ASSERT_EQ(sink.lines.size(), 1U);
  EXPECT_NE(sink.lines[0].find("event=x took_ms=2000.192 skew_ms=-0.001 least_ms=0\n"),
            std::string::npos)
      << sink.lines[0];
}

TEST_F(LogLines, WritesTheSameInJson) {
  Log log(sink, clock, {.format = LogFormat::json});
  log.write(LogLevel::error, "policy_refused", {{"faults", "a: b\nc"}, {"took", Nanos(2ms)}});
  ASSERT_EQ(sink.lines.size(), 1U);
  EXPECT_EQ(sink.lines[0],
            R"({"time":"2026-01-31T12:00:00.007Z","level":"error","event":"policy_refused",)"
            R"("faults":"a: b\nc","took_ms":2})"
            "\n");
}

TEST_F(LogLines, LetsNoValueEndItsLineOrBeginAField) {
  std::string every = "x level=error \"";
  for (int c = 0; c < 256; ++c) every += static_cast<char>(c);
  for (const LogFormat format : {LogFormat::logfmt, LogFormat::json}) {
    sink.lines.clear();
    Log log(sink, clock, {.format = format});
    log.write(LogLevel::warn, "strange", {{"value", every}, {"empty", ""}});
    ASSERT_EQ(sink.lines.size(), 1U);
    const std::string& line = sink.lines[0];
    EXPECT_EQ(line.find('\n'), line.size() - 1);
    for (const char raw : line.substr(0, line.size() - 1)) {
      EXPECT_GE(static_cast<unsigned char>(raw), 0x20) << line;
    }
    if (format == LogFormat::json) {
      EXPECT_TRUE(nlohmann::json::accept(line)) << line;
    } else {
      EXPECT_NE(line.find(" value=\"x level=error \\\""), std::string::npos) << line;
      EXPECT_TRUE(line.ends_with(" empty=\"\"\n")) << line;
    }
  }
}

TEST_F(LogLines, LeavesOutWhatIsBelowItsLevel) {
  Log log(sink, clock, {.least = LogLevel::warn});
  log.write(LogLevel::info, "quiet");
  log.write(LogLevel::warn, "loud");
  ASSERT_EQ(sink.lines.size(), 1U);
  EXPECT_NE(sink.lines[0].find("event=loud"), std::string::npos);
}

// A minute's outage once filled disks with thousands of equal lines a second.
TEST_F(LogLines, BoundsTheLinesOfOneEventAndTellsHowManyWereLeftOut) {
  Log log(sink, clock);
  for (int second = 0; second < 60; ++second) {
    for (int i = 0; i < 5000; ++i) log.write(LogLevel::error, "store_failed");
    log.write(LogLevel::info, "other");
    clock.advance(1s);
  }
  std::uint64_t told = 0;
  std::uint64_t failed = 0;
  for (const std::string& line : sink.lines) {
    if (line.find("event=store_failed") == std::string::npos) continue;
    ++failed;
    const std::size_t at = line.find(" suppressed=");
    if (at != std::string::npos) told += std::stoull(line.substr(at + 12));
  }
  EXPECT_EQ(failed, 60U);
  EXPECT_EQ(sink.lines.size(), 120U) << "an event pays for its own lines only";
  EXPECT_EQ(told + failed, 5U * 10 * 5000 + 10) << "nothing is lost but the last stretch";
}

TEST_F(LogLines, TellsHowManyLinesCouldNotBeWritten) {
  Log log(sink, clock);
  sink.full = true;
  log.write(LogLevel::info, "one");
  log.write(LogLevel::info, "two");
  sink.full = false;
  log.write(LogLevel::info, "three");
  log.write(LogLevel::info, "four");
  ASSERT_EQ(sink.lines.size(), 2U);
  EXPECT_EQ(sink.lines[0], "time=2026-01-31T12:00:00.007Z level=info event=three lost=2\n");
  EXPECT_EQ(sink.lines[1], "time=2026-01-31T12:00:00.007Z level=info event=four\n");
}

// Standard error is a pipe here, as under a supervisor, whose reader has stopped.
TEST(StandardErrorSink, DoesNotWaitForItsReader) {
  const int before = ::dup(STDERR_FILENO);
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  ASSERT_EQ(::dup2(pipe[1], STDERR_FILENO), STDERR_FILENO);
  const std::string line = std::string(10'000, 'x') + "\n";
  int taken = 0;
  while (taken < 1000 && LogSink::standard_error().write(line)) ++taken;
  std::string text(1 << 20, '\0');
  text.resize(static_cast<std::size_t>(::read(pipe[0], text.data(), text.size())));
  const bool again = LogSink::standard_error().write("after\n");
  std::string after(100, '\0');
  after.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::read(pipe[0], after.data(), 100))));
  ::dup2(before, STDERR_FILENO);
  for (const int fd : {before, pipe[0], pipe[1]}) ::close(fd);
  EXPECT_GT(taken, 0);
  EXPECT_LT(taken, 1000);
  EXPECT_TRUE(again);
  EXPECT_TRUE(after.ends_with("\nafter\n")) << after;  // not joined to the line that was cut off
}

TEST_F(LogLines, WritesOneLineATransition) {
  Log log(sink, clock);
  EXPECT_TRUE(
      log.transition(LogLevel::error, "policy_file", "refused", {{"line", std::uint64_t{3}}}));
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(log.transition(LogLevel::error, "policy_file", "refused"));
  }
  EXPECT_TRUE(log.transition(LogLevel::info, "policy_file", "loaded"));
  EXPECT_TRUE(log.transition(LogLevel::info, "store", "loaded"));
  ASSERT_EQ(sink.lines.size(), 3U);
  EXPECT_EQ(sink.lines[0],
            "time=2026-01-31T12:00:00.007Z level=error event=policy_file state=refused line=3\n");
  EXPECT_NE(sink.lines[1].find("state=loaded"), std::string::npos);
}

}  // namespace
}  // namespace weir::render
