#include "server/grpc/message.h"

#include <google/protobuf/message_lite.h>

#include "server/grpc/session.h"

namespace weir::server::grpc {

void append_message(Session& session, CallId call, const google::protobuf::MessageLite& message) {
  const std::size_t bytes = message.ByteSizeLong();
  char* room = session.append_message(call, bytes);
  if (room == nullptr) return;
  message.SerializeWithCachedSizesToArray(reinterpret_cast<std::uint8_t*>(room));
}

}  // namespace weir::server::grpc
