#pragma once

#include "server/grpc/service.h"

namespace google::protobuf {
class MessageLite;
}

namespace weir::server::grpc {

// Appends `message` to what a call will send; nothing when the call is gone.
void append_message(Session& session, CallId call, const google::protobuf::MessageLite& message);

}  // namespace weir::server::grpc
