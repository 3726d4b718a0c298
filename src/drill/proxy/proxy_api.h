#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "drill/proxy/proxy_set.h"

namespace weir::drill {

struct ApiAnswer {
  unsigned status = 200;
  std::string body;  // JSON; empty with 204
};

// The HTTP API of a set of fault proxies. Its addresses, bodies and statuses are Toxiproxy's, so
// that the clients that are written for that one work: docs/reference/proxy.md.
//
// Guarantees:  what a body says and nobody here knows is an error, never passed over.
// Threads:     one at a time.
class ProxyApi {
 public:
  // The version of Toxiproxy whose API this is.
  static constexpr std::string_view kSpokenVersion = "2.5.0";

  explicit ProxyApi(ProxySet& proxies) : proxies_(proxies) {}

  ApiAnswer answer(std::string_view method, std::string_view target, std::string_view body);

  // What /populate is told, from a file.
  Result<void> populate(std::string_view text);

 private:
  ApiAnswer of_all(std::string_view method, std::string_view body);
  ApiAnswer of_one(std::string_view method, std::string_view name, std::string_view body);
  ApiAnswer of_toxics(std::string_view method, std::string_view proxy, std::string_view body);
  ApiAnswer of_toxic(std::string_view method, std::string_view proxy, std::string_view name,
                     std::string_view body);
  ApiAnswer populate_and_tell(std::string_view body);

  ProxySet& proxies_;
};

}  // namespace weir::drill
