#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir::server::grpc {

// Cuts the bytes of one stream into gRPC messages: a flag byte, four bytes of length, the message.
//
// Guarantees:  holds at most the bytes of one message that is not complete; a message that arrives
//              whole is not copied.
class Deframer {
 public:
  enum class Event : std::uint8_t {
    more,        // all bytes are taken, no message is complete
    message,     // `message` is one; bytes after it stay in `bytes`
    too_large,   // the next message says it is longer than allowed; its bytes are not kept
    compressed,  // the next message is marked as compressed
    malformed,   // the flag byte is neither 0 nor 1
  };

  // Takes from the front of `bytes`. `message` holds until the next call, or until `bytes` dies.
  // After too_large, compressed or malformed the stream has no further messages.
  Event next(std::string_view& bytes, std::size_t max_bytes, std::string_view& message);

  // Bytes held of an incomplete message.
  std::size_t held() const noexcept { return delivered_ ? 0 : buffer_.size(); }
  // Forgets everything, keeping at most `keep` bytes of room.
  void reset(std::size_t keep);

 private:
  static constexpr std::size_t kPrefix = 5;

  std::string buffer_;
  bool delivered_ = false;  // buffer_ holds the message that the last call returned
};

}  // namespace weir::server::grpc
