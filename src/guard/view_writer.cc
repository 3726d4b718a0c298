#include "guard/view_writer.h"

#include <utility>

#include "base/file_size_signal.h"

namespace weir::guard {

ViewWriter::ViewWriter(StateFolder folder, Done done)
    : folder_(std::move(folder)), done_(std::move(done)), thread_([this] { run(); }) {}

ViewWriter::~ViewWriter() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void ViewWriter::write(std::string text, std::uint64_t epoch) {
  {
    std::lock_guard lock(mutex_);
    next_ = View{std::move(text), epoch};
  }
  changed_.notify_one();
}

void ViewWriter::move(StateFolder folder) {
  std::lock_guard lock(mutex_);
  moved_ = std::move(folder);
}

void ViewWriter::run() {
  take_file_size_as_error();
  for (;;) {
    View view;
    std::optional<StateFolder> moved;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || next_; });
      if (stopping_) return;
      view = *std::exchange(next_, std::nullopt);
      moved = std::exchange(moved_, std::nullopt);
    }
    if (moved && moved->path() != folder_.path()) {
      left_.push_back(std::exchange(folder_, *std::move(moved)));
    }
    const Result<void> written = folder_.write(view.text);
    if (written) empty_old_places();
    done_(view.epoch, written ? std::string() : written.error().message);
  }
}

// A place that it has come back to is none of them.
void ViewWriter::empty_old_places() {
  for (const StateFolder& old : left_) {
    if (old.path() != folder_.path()) old.remove();
  }
  left_.clear();
}

}  // namespace weir::guard
