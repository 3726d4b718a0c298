#pragma once

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>

#include "weir/clock.h"
#include "weir/limits.h"

namespace weir::server {

// Which doors speak TLS, and with what. Files are PEM, and are read again when they change.
struct ServeTls {
  std::string cert_file;  // empty: no door speaks TLS
  std::string key_file;
  std::string client_ca_file;  // given: clients must show a certificate that leads to one of these
  bool http = true;
  bool grpc = true;
  bool admin = false;
};

// What `weir serve` was asked to do. Addresses are `host:port`, `unix:PATH` or `off`; port 0 picks
// one, and the ready line names it.
struct ServeOptions {
  // The policy file. Watched, and loaded again on change and on SIGHUP.
  std::string policy_path;
  // Overrides the file's store (--store, WEIR_STORE). Absent: as the file says.
  std::optional<std::string> store_url;
  // What the store's keys begin with, and the folder where this worker keeps what it knows of its
  // fleet (--store-prefix, --state). Empty: as the file says.
  std::string store_prefix;
  std::string state_folder;
  // Folder of the journal, and of its ledger (--journal). Empty: as the file says.
  std::string journal_folder;
  // What Envoy-style domains protect that do not say themselves (--protects).
  std::optional<Protects> protects;
  std::string http = "0.0.0.0:8080";
  std::string grpc = "0.0.0.0:8081";
  std::string admin = "127.0.0.1:6070";
  ServeTls tls;
  // File with the token that changing requests to the admin door must bear; one line. Empty:
  // WEIR_ADMIN_TOKEN of the environment, and without that every change is forbidden.
  std::string admin_token_file;
  // Threads that serve, from 1 to 256. Absent: one a core that this process may use.
  std::optional<std::size_t> lanes;
  // Between SIGTERM, when readiness falls, and the end of listening: the time load balancers need
  // to notice. SIGINT does not wait.
  Nanos drain_delay{std::chrono::seconds(2)};
  // From the end of listening, for what is in flight; what is not done then is cut off.
  Nanos drain_grace{std::chrono::seconds(20)};
  bool json_logs = false;
};

// Serves until a signal ends it, and returns the process's exit code: 0 after a drain, 2 where the
// options or the policy are wrong, 3 where an address or the store cannot be had, or where usage of
// served calls could not be recorded before the end. Prints to `out`
// when ready (addresses and a line to try) and says on `err`, in one line, why it cannot.
//
// Requires:    called once, from main(): takes SIGTERM, SIGINT and SIGHUP, ignores SIGPIPE and
//              SIGXFSZ.
int serve(const ServeOptions& options, std::ostream& out, std::ostream& err);

}  // namespace weir::server
