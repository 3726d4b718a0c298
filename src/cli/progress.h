#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ostream>
#include <string>
#include <utility>

namespace weir::cli {

// A bar on standard error, where that is a terminal and somebody looks at it; gone when this ends.
class Progress {
 public:
  // `what` is counted: "events". Where the answer goes to the same terminal meanwhile, there is no
  // bar.
  Progress(std::ostream& err, std::string what, std::uint64_t whole, bool alone = true)
      : err_(err),
        what_(std::move(what)),
        whole_(whole),
        shown_(::isatty(STDERR_FILENO) != 0 && (alone || ::isatty(STDOUT_FILENO) == 0)) {}
  ~Progress() {
    if (shown_) err_ << "\r\x1b[K" << std::flush;
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void at(std::uint64_t done) {
    if (!shown_ || whole_ == 0) return;
    // Often enough for the eye; a terminal takes longer than what is counted.
    const auto now = std::chrono::steady_clock::now();
    if (done < whole_ && now - drawn_ < std::chrono::milliseconds(50)) return;
    drawn_ = now;
    constexpr std::uint64_t kWidth = 40;
    const std::uint64_t filled = std::min(done, whole_) * kWidth / whole_;
    err_ << '\r' << std::string(filled, '#') << std::string(kWidth - filled, '.') << ' ' << done
         << " of " << whole_ << ' ' << what_ << std::flush;
  }

 private:
  std::ostream& err_;
  const std::string what_;
  const std::uint64_t whole_;
  const bool shown_;
  std::chrono::steady_clock::time_point drawn_{};
};

}  // namespace weir::cli
