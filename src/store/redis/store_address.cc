#include "store/redis/store_address.h"

#include <fstream>
#include <utility>

namespace weir::store::redis {

Endpoint endpoint_of(const policy::StoreSpec& spec, const policy::StoreUrl& url) {
  if (url.kind == policy::StoreKind::unix_socket) {
    return {.host = {}, .port = 0, .unix_path = url.path, .tls = {}};
  }
  const policy::StoreHost& host = url.hosts.front();
  return endpoint_at(spec, url, {host.host, host.port});
}

Endpoint endpoint_at(const policy::StoreSpec& spec, const policy::StoreUrl& url,
                     const HostPort& where) {
  Endpoint endpoint{.host = where.host, .port = where.port, .unix_path = {}, .tls = {}};
  if (url.tls) {
    const policy::StoreSpec::Tls tls = spec.tls.value_or(policy::StoreSpec::Tls{});
    endpoint.tls = TlsFiles{.ca = tls.ca,
                            .cert = tls.cert,
                            .key = tls.key,
                            .server_name = tls.server_name.empty() ? where.host : tls.server_name};
  }
  return endpoint;
}

bool has_credentials(const policy::StoreSpec& spec, const policy::StoreUrl& url) {
  return !spec.password_file.empty() || !url.password.empty() || !url.username.empty();
}

Result<std::string> read_password(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line) || line.empty()) {
    return Error{
        ErrorCode::invalid_argument,
        "store.password_file: " + path + " holds no password in its first line, or cannot be read"};
  }
  return line;
}

std::function<Result<Credentials>()> credentials_of(const policy::StoreSpec& spec,
                                                    const policy::StoreUrl& url) {
  const std::string user = spec.username.empty() ? url.username : spec.username;
  return [user, password = url.password, file = spec.password_file]() -> Result<Credentials> {
    if (file.empty()) return Credentials{user, password};
    auto read = read_password(file);
    if (!read) return read.error();
    return Credentials{user, std::move(*read)};
  };
}

}  // namespace weir::store::redis
