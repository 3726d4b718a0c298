#pragma once

#include <memory>

#include "policy/model.h"
#include "policy/store_url.h"
#include "store/redis/wire.h"
#include "weir/clock.h"
#include "weir/result.h"

namespace boost::asio {
class io_context;
}

namespace weir::store::redis {

// A wire to the one server that a URL means: the one it names, or the one that its sentinels name
// whenever a connection is made.
//
// Requires:    url.kind is redis, unix_socket or sentinel.
// Threads:     the loop's alone.
std::unique_ptr<Wire> server_wire(boost::asio::io_context& io, const policy::StoreSpec& spec,
                                  const policy::StoreUrl& url, Clock& clock);

// Whether the files that a connection needs can be used: no fault of the store's, and said at once.
//
// Errors:      invalid_argument, naming the file.
Result<void> check_files(const policy::StoreSpec& spec, const policy::StoreUrl& url);

}  // namespace weir::store::redis
