#pragma once

#include <functional>
#include <string>

#include "policy/model.h"
#include "policy/store_url.h"
#include "store/redis/redis_session.h"
#include "store/redis/topology/host_port.h"
#include "store/redis/wire.h"
#include "weir/result.h"

namespace weir::store::redis {

// Where the first server is that a URL names, and how it is spoken to.
//
// Requires:    url.kind is not memory.
Endpoint endpoint_of(const policy::StoreSpec& spec, const policy::StoreUrl& url);

// How a node of a store of several is spoken to, at an address that the URL or another node named.
// Where the policy gives no server_name, certificates must hold the host's own.
//
// Requires:    url.kind is not unix_socket or memory.
Endpoint endpoint_at(const policy::StoreSpec& spec, const policy::StoreUrl& url,
                     const HostPort& where);

// Whether the policy or its URL names a user or a password.
bool has_credentials(const policy::StoreSpec& spec, const policy::StoreUrl& url);

// The first line of a password file.
//
// Errors:      invalid_argument, naming the file: it cannot be read, or its first line is empty.
Result<std::string> read_password(const std::string& path);

// What asks for the credentials at every connection: a file is read again each time.
std::function<Result<Credentials>()> credentials_of(const policy::StoreSpec& spec,
                                                    const policy::StoreUrl& url);

}  // namespace weir::store::redis
