#pragma once

#include <string>

#include "cli/environment.h"

namespace weir::cli {

// `weir serve [POLICY]`, as written; an empty text leaves the server's own default.
struct ServeCommand {
  std::string policy = "weir.yaml";
  std::string store;
  std::string store_prefix;
  std::string state;
  std::string journal;
  std::string protects;
  std::string http;
  std::string grpc;
  std::string admin;
  std::string admin_token_file;
  std::string tls_cert;
  std::string tls_key;
  std::string tls_client_ca;
  std::string tls_doors;
  std::string lanes;
  std::string drain_delay;
  std::string drain_grace;
  bool json = false;  // the log in JSON
};

ExitCode serve(Environment& environment, const ServeCommand& command);

}  // namespace weir::cli
