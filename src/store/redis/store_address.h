#pragma once

#include <functional>
#include <string>

#include "policy/model.h"
#include "policy/store_url.h"
#include "store/redis/redis_session.h"
#include "store/redis/wire.h"
#include "weir/result.h"

namespace weir::store::redis {

// Where the server is that a URL of one server names, and how it is spoken to.
//
// Requires:    url.kind is redis or unix_socket.
Endpoint endpoint_of(const policy::StoreSpec& spec, const policy::StoreUrl& url);

// The first line of a password file.
//
// Errors:      invalid_argument, naming the file: it cannot be read, or its first line is empty.
Result<std::string> read_password(const std::string& path);

// What asks for the credentials at every connection: a file is read again each time.
std::function<Result<Credentials>()> credentials_of(const policy::StoreSpec& spec,
                                                    const policy::StoreUrl& url);

}  // namespace weir::store::redis
