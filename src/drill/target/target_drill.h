#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "drill/load/http_load.h"
#include "drill/proxy/fault_proxy.h"
#include "drill/run/drill.h"
#include "drill/target/conduct.h"
#include "drill/target/target_url.h"
#include "policy/source.h"

namespace weir::drill {

// What is asked of somebody's API, and how.
struct TargetOptions {
  TargetUrl url;
  std::string url_text;
  // Of https: what the certificate must be for, where it is not the address's host; who signed it,
  // where this machine does not know them; or that nobody looks.
  TlsTrust trust;
  std::string method = "GET";
  std::vector<std::string> headers;  // "Name: value"
  std::string body;
  policy::Source key;               // what its limit counts by: a header, a query or a cookie
  std::vector<std::string> values;  // of the key, where it takes no others; else they are made up
  StatedLimit limit;
  std::string limit_text;
  double rate = 10;  // calls a second of those who keep to the limit, together
  Nanos patience{std::chrono::seconds(15)};
  Nanos wait{std::chrono::seconds(30)};  // for its first answer
  std::optional<Conduct> expected;       // while the store is away
  std::uint64_t seed = 1;
};

// Stands in front of the store of somebody's API, asks that API while the store fails, and says
// what became of its callers.
class TargetDrill {
 public:
  // `store` is the store's own address; the API's is to be `listen`.
  //
  // Errors:      invalid_argument, unavailable: the addresses, among them a name that has none.
  static Result<std::unique_ptr<TargetDrill>> open(const std::string& store,
                                                   const std::string& listen,
                                                   TargetOptions options);
  ~TargetDrill();
  TargetDrill(const TargetDrill&) = delete;
  TargetDrill& operator=(const TargetDrill&) = delete;

  // host:port of the proxy.
  std::string listen() const;

  // Waits for the API to answer, and runs the scenario.
  //
  // Errors:      unavailable: the API does not answer, is not to be trusted or speaks no HTTP (said
  //              at once), does not answer well while nothing is the matter, or says nothing
  //              through the proxy; invalid_argument: the scenario, the authorities.
  Result<DrillReport> run(const Scenario& scenario, const OnPhase& on_phase = {});

 private:
  class Impl;
  explicit TargetDrill(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::drill
