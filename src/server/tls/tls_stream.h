#pragma once

#include <memory>

#include "server/stream.h"
#include "server/tls/tls_context.h"

namespace weir::server {

// The server's side of TLS on `inner`, which has no owner yet. The handshake begins with the first
// read() or write().
std::unique_ptr<Stream> make_tls_stream(Lane& lane, std::unique_ptr<Stream> inner,
                                        std::shared_ptr<const TlsContext> context);

}  // namespace weir::server
