#include "guard/view_writer.h"

#include <utility>

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

void ViewWriter::run() {
  for (;;) {
    View view;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || next_; });
      if (stopping_) return;
      view = *std::exchange(next_, std::nullopt);
    }
    const Result<void> written = folder_.write(view.text);
    done_(view.epoch, written ? std::string() : written.error().message);
  }
}

}  // namespace weir::guard
