#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "weir/clock.h"
#include "weir/result.h"

namespace weir::drill {

// A program that was started here, and ends here.
class ChildProcess {
 public:
  // Starts it in `folder` with its output, both kinds, in the file `log`; `more` stands in its
  // environment besides ours, each as NAME=VALUE.
  //
  // Errors:      unavailable, where there is no such program or no process to be had.
  static Result<ChildProcess> start(const std::vector<std::string>& words,
                                    const std::string& folder, const std::string& log,
                                    const std::vector<std::string>& more = {});
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();  // SIGKILL, if it still runs

  pid_t pid() const noexcept { return pid_; }
  void signal(int number) const noexcept;
  bool running() noexcept;
  // Whether it ended in time.
  bool wait(Nanos patience) noexcept;
  void kill() noexcept;

  // What it has written so far.
  std::string output() const;

 private:
  ChildProcess(pid_t pid, std::string log) : pid_(pid), log_(std::move(log)) {}

  pid_t pid_ = -1;
  std::string log_;
};

}  // namespace weir::drill
