#include "server/serve.h"
#include "guard/impl.h"

#include <csignal>
#include <cstdlib>
#include <ostream>
#include <string>
#include <utility>

#include "render/log.h"
#include "server/serve/process.h"
#include "server/serve/ready_text.h"
#include "server/serve/server.h"
#include "server/serve/store_log.h"

namespace weir::server {
namespace {

// The exit codes of every verb of ours.
constexpr int kServed = 0;
constexpr int kUsage = 2;
constexpr int kCannot = 3;

constexpr std::size_t kMaxLanes = 256;
// The admin door's socket file: its owner alone.
constexpr unsigned kAdminMode = 0600;
constexpr unsigned kDoorMode = 0660;

int exit_code(const Error& error) {
  return error.code == ErrorCode::unavailable || error.code == ErrorCode::resource_exhausted ||
                 error.code == ErrorCode::internal
             ? kCannot
             : kUsage;
}

// Puts in front of a message where it comes from.
Error from(std::string_view origin, Error error) {
  error.message = std::string(origin) + " " + error.message;
  return error;
}

Result<ListenSockets> listen(std::string_view option, const std::string& text, std::size_t count,
                             unsigned mode) {
  Result<Address> address = parse_address(text);
  if (!address) return from(option, std::move(address).error());
  Result<ListenSockets> sockets = listen_on(*address, count, mode);
  if (!sockets) return from(option, std::move(sockets).error());
  return sockets;
}

Result<Server::Parts> prepare(const ServeOptions& options, Observer& observer) {
  const std::size_t descriptors = raise_descriptor_limit();
  const std::size_t lanes = options.lanes.value_or(usable_cores());
  if (lanes == 0 || lanes > kMaxLanes) {
    return Error{
        ErrorCode::invalid_argument,
        "--lanes " + std::to_string(lanes) + ": allowed are 1 to " + std::to_string(kMaxLanes)};
  }
  if (options.http == "off" && options.grpc == "off" && options.admin == "off") {
    return Error{ErrorCode::invalid_argument,
                 "--http, --grpc and --admin are all off; nobody could ask"};
  }
  Result<AdminToken> token =
      AdminToken::read(options.admin_token_file, std::getenv("WEIR_ADMIN_TOKEN"));
  if (!token) return std::move(token).error();
  PolicyOrigin origin{options.policy_path,  options.store_url,    options.protects,
                      options.store_prefix, options.state_folder, options.journal_folder};
  Result<Policy> policy = origin.load();
  if (!policy) return std::move(policy).error();
  Result<Guard> guard = Guard::open(std::move(*policy), {.observer = &observer});
  if (!guard) return std::move(guard).error();
  Result<ListenSockets> http = listen("--http", options.http, lanes, kDoorMode);
  if (!http) return std::move(http).error();
  Result<ListenSockets> grpc = listen("--grpc", options.grpc, lanes, kDoorMode);
  if (!grpc) return std::move(grpc).error();
  Result<ListenSockets> admin = listen("--admin", options.admin, 1, kAdminMode);
  if (!admin) return std::move(admin).error();
  return Server::Parts{.guard = std::move(*guard),
                       .origin = std::move(origin),
                       .token = std::move(*token),
                       .http = std::move(*http),
                       .grpc = std::move(*grpc),
                       .admin = std::move(*admin),
                       .tls = options.tls,
                       .lanes = lanes,
                       .descriptors = descriptors,
                       .drain_delay = options.drain_delay,
                       .drain_grace = options.drain_grace};
}

}  // namespace

int serve(const ServeOptions& options, std::ostream& out, std::ostream& err) {
  // A file that may grow no more is a full disk, to the log and to lock files as well.
  std::signal(SIGXFSZ, SIG_IGN);
  render::Log log(
      render::LogSink::standard_error(), Clock::real(),
      {.format = options.json_logs ? render::LogFormat::json : render::LogFormat::logfmt});
  StoreLog store_log(log);
  Result<Server::Parts> parts = prepare(options, store_log);
  if (!parts) {
    err << "weir: " << parts.error().message << '\n';
    return exit_code(parts.error());
  }
  const Policy policy = parts->guard.policy();
  const guard::SharedStore* shared = parts->guard.impl().shared();
  const ReadyFacts facts{
      .policy_path = options.policy_path,
      .lanes = parts->lanes,
      .http = parts->http.address,
      .grpc = parts->grpc.address,
      .admin = parts->admin.address,
      .tls = parts->tls,
      .store = shared != nullptr
                   ? store_line(policy.model().store, shared->answering() && shared->connected(),
                                shared->part())
                   : std::string(),
      .fallback = shared != nullptr ? fallback_line(policy.model().store, shared->fallback())
                                    : std::string()};
  const std::string text = ready_text(facts, policy.model());
  Result<std::unique_ptr<Server>> server = Server::make(std::move(*parts), log);
  if (!server) {
    err << "weir: " << server.error().message << '\n';
    return exit_code(server.error());
  }
  const bool ran = (*server)->run([&] {
    // Whoever closed standard output reads the same in the log: no reason to end badly.
    out << text << std::flush;
    log.write(render::LogLevel::info, "ready",
              {{"policy", facts.policy_path},
               {"http", facts.http.text()},
               {"grpc", facts.grpc.text()},
               {"admin", facts.admin.text()},
               {"lanes", static_cast<std::uint64_t>(facts.lanes)},
               {"routes", static_cast<std::uint64_t>(policy.model().routes.size())},
               {"domains", static_cast<std::uint64_t>(policy.model().domains.size())},
               {"domain_limits", static_cast<std::uint64_t>(domain_limits(policy.model()))}});
  });
  const std::uint64_t lost = (*server)->close();
  if (lost > 0) {
    err << "weir: " << lost
        << " usage events of served calls were never recorded, and are not billed; the log says "
           "why "
           "(journal_fails)\n";
  }
  return ran && lost == 0 ? kServed : kCannot;
}

}  // namespace weir::server
