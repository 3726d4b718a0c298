#include "server/grpc/message.h"

#include <google/protobuf/message_lite.h>
#include <google/protobuf/stubs/logging.h>

#include "server/grpc/session.h"

namespace weir::server::grpc {

bool read_message(std::string_view bytes, google::protobuf::MessageLite& message) {
  // The library would write a line to standard error for every text that is not UTF-8, as often as
  // a client likes.
  [[maybe_unused]] static const auto former = google::protobuf::SetLogHandler(nullptr);
  return message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

void append_message(Session& session, CallId call, const google::protobuf::MessageLite& message) {
  const std::size_t bytes = message.ByteSizeLong();
  char* room = session.append_message(call, bytes);
  if (room == nullptr) return;
  message.SerializeWithCachedSizesToArray(reinterpret_cast<std::uint8_t*>(room));
}

}  // namespace weir::server::grpc
