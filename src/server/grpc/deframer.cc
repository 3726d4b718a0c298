#include "server/grpc/deframer.h"

#include <algorithm>

namespace weir::server::grpc {
namespace {

std::size_t length_of(std::string_view prefix) {
  std::size_t length = 0;
  for (std::size_t i = 1; i < 5; ++i) {
    length = length << 8U | static_cast<unsigned char>(prefix[i]);
  }
  return length;
}

}  // namespace

Deframer::Event Deframer::next(std::string_view& bytes, std::size_t max_bytes,
                               std::string_view& message) {
  if (delivered_) {
    buffer_.clear();
    delivered_ = false;
  }
  const bool fresh = buffer_.empty();
  if (!fresh && buffer_.size() < kPrefix) {
    const std::size_t take = std::min(kPrefix - buffer_.size(), bytes.size());
    buffer_.append(bytes.substr(0, take));
    bytes.remove_prefix(take);
  }
  const std::string_view head = fresh ? bytes : std::string_view(buffer_);
  if (head.empty()) return Event::more;
  if (static_cast<unsigned char>(head[0]) > 1) return Event::malformed;
  if (head.size() < kPrefix) {
    if (fresh) buffer_.assign(bytes);
    bytes = {};
    return Event::more;
  }
  const std::size_t length = length_of(head);
  if (length > max_bytes) return Event::too_large;
  if (head[0] == 1) return Event::compressed;

  const std::size_t whole = kPrefix + length;
  if (fresh && bytes.size() >= whole) {
    message = bytes.substr(kPrefix, length);
    bytes.remove_prefix(whole);
    return Event::message;
  }
  const std::size_t take = std::min(whole - buffer_.size(), bytes.size());
  buffer_.append(bytes.substr(0, take));
  bytes.remove_prefix(take);
  if (buffer_.size() < whole) return Event::more;
  delivered_ = true;
  message = std::string_view(buffer_).substr(kPrefix);
  return Event::message;
}

void Deframer::reset(std::size_t keep) {
  delivered_ = false;
  buffer_.clear();
  if (buffer_.capacity() > keep) buffer_.shrink_to_fit();
}

}  // namespace weir::server::grpc
