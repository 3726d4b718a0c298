#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "guard/state_folder.h"

namespace weir::guard {

// Writes views to a state folder in a thread of its own: a disk may hang, and no decision waits
// for one. Of views that come faster than the disk takes them the last one is written.
//
// Threads:     write() and move() from one, which is not its own.
class ViewWriter {
 public:
  // Called in the writer's thread; `fault` is empty where the view stands in the folder.
  using Done = std::function<void(std::uint64_t epoch, std::string fault)>;

  ViewWriter(StateFolder folder, Done done);
  // Waits for a write that has begun; what waits behind it is dropped.
  ~ViewWriter();
  ViewWriter(const ViewWriter&) = delete;
  ViewWriter& operator=(const ViewWriter&) = delete;

  void write(std::string text, std::uint64_t epoch);
  // Views go there from now on; what stood in the old place goes when the first one stands in the
  // new.
  void move(StateFolder folder);

 private:
  struct View {
    std::string text;
    std::uint64_t epoch = 0;
  };
  void run();
  void empty_old_places();

  StateFolder folder_;             // the writer's thread alone
  std::vector<StateFolder> left_;  // its too: that are still to be emptied
  const Done done_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<StateFolder> moved_;
  std::optional<View> next_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace weir::guard
