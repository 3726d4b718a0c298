#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "server/stream.h"

namespace weir::server::http {

// The client's end of a MemoryStream; outlives the stream.
struct MemoryClient {
  std::string received;                               // what the server has sent
  std::size_t window = static_cast<std::size_t>(-1);  // bytes the client will still take
  bool send_shut = false;                             // the server says that nothing more comes
  bool closed = false;
};

// A Stream without a socket, for tests and fuzzing: whoever holds it plays the client, and every
// event happens inside a call to feed(), end(), take() or run().
class MemoryStream final : public Stream {
 public:
  explicit MemoryStream(MemoryClient& client) : client_(client) {}

  void set_owner(StreamOwner& owner) override { owner_ = &owner; }
  void read(std::span<char> into) override { into_ = into; }
  std::size_t write_some(std::span<const char> from) override {
    const std::size_t bytes = std::min(from.size(), client_.window);
    client_.received.append(from.data(), bytes);
    client_.window -= bytes;
    return bytes;
  }
  void write(std::span<const char> from) override { unsent_ = {from.data(), from.size()}; }
  void shutdown_send() override { client_.send_shut = true; }
  void close() override { client_.closed = true; }
  Peer peer() const override { return {"192.0.2.7", false}; }

  StreamOwner& owner() { return *owner_; }

  // What follows is the client's doing. Each stops, and returns, once the stream is closed and has
  // said so: it is gone then.

  // Sends bytes, as far as they are read; what is not is kept for later.
  void feed(std::string_view bytes) {
    waiting_ += bytes;
    run();
  }
  // Sends nothing more.
  void end() {
    ended_ = true;
    run();
  }
  // Takes `bytes` more of what the server has to send.
  void take(std::size_t bytes) {
    client_.window = bytes;
    run();
  }
  // Lets happen what can.
  void run() {
    while (step()) {
    }
    if (client_.closed) owner_->on_closed();  // deletes this
  }

 private:
  bool step() {
    if (client_.closed) return false;
    if (!unsent_.empty() && client_.window != 0) {
      unsent_.remove_prefix(write_some(unsent_));
      if (unsent_.empty()) owner_->on_written();
      return true;
    }
    if (into_.empty()) return false;
    if (!waiting_.empty()) {
      const std::size_t bytes = std::min(waiting_.size(), into_.size());
      std::memcpy(into_.data(), waiting_.data(), bytes);
      waiting_.erase(0, bytes);
      into_ = {};
      owner_->on_read(bytes);
      return true;
    }
    if (!ended_) return false;
    into_ = {};
    owner_->on_end();
    return true;
  }

  MemoryClient& client_;
  StreamOwner* owner_ = nullptr;
  std::span<char> into_;
  std::string_view unsent_;
  std::string waiting_;
  bool ended_ = false;
};

}  // namespace weir::server::http
