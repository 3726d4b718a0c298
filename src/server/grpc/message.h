#pragma once

#include <string_view>

#include "server/grpc/service.h"

namespace google::protobuf {
class MessageLite;
}

namespace weir::server::grpc {

// Reads a message. False where the bytes are none of its kind.
bool read_message(std::string_view bytes, google::protobuf::MessageLite& message);

// Appends `message` to what a call will send; nothing when the call is gone.
void append_message(Session& session, CallId call, const google::protobuf::MessageLite& message);

}  // namespace weir::server::grpc
