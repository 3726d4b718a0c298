#include "cli/serve.h"

#include <algorithm>
#include <string_view>

#include "cli/number.h"
#include "cli/open_policy.h"
#include "policy/duration.h"
#include "server/serve.h"

namespace weir::cli {
namespace {

constexpr std::uint64_t kMaxLanes = 256;

// As a policy file's `prefix`; empty is "not given".
bool is_key_prefix(std::string_view text) {
  constexpr std::string_view kGood =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/";
  return text.size() <= 64 && text.find_first_not_of(kGood) == text.npos;
}

// Returns what is wrong with the words about TLS, if anything.
std::optional<std::string> read_tls(const ServeCommand& command, server::ServeTls& tls) {
  tls.cert_file = command.tls_cert;
  tls.key_file = command.tls_key;
  tls.client_ca_file = command.tls_client_ca;
  if (tls.cert_file.empty() != tls.key_file.empty()) {
    return std::string("--tls-cert and --tls-key go together");
  }
  if (tls.cert_file.empty() && !(tls.client_ca_file.empty() && command.tls_doors.empty())) {
    return std::string("--tls-client-ca and --tls need --tls-cert and --tls-key");
  }
  if (command.tls_doors.empty()) return std::nullopt;
  tls.http = tls.grpc = tls.admin = false;
  std::string_view rest = command.tls_doors;
  while (!rest.empty()) {
    const std::string_view door = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), door.size() + 1));
    bool* const which = door == "http"    ? &tls.http
                        : door == "grpc"  ? &tls.grpc
                        : door == "admin" ? &tls.admin
                                          : nullptr;
    if (which == nullptr) {
      return "--tls is '" + command.tls_doors +
             "'; it must be one or more of http, grpc and admin, with commas between";
    }
    *which = true;
  }
  return std::nullopt;
}

// Returns what is wrong with the word, if anything.
std::optional<std::string> read_protects(const std::string& given,
                                         std::optional<Protects>& protects) {
  if (given.empty()) return std::nullopt;
  for (const Protects each : {Protects::security, Protects::side_effects, Protects::capacity,
                              Protects::revenue, Protects::nothing}) {
    if (to_string(each) != given) continue;
    protects = each;
    return std::nullopt;
  }
  return "--protects is '" + given +
         "'; it must be security, side_effects, capacity, revenue or nothing";
}

// Returns what is wrong with the words, if anything.
std::optional<std::string> read(const ServeCommand& command, server::ServeOptions& options) {
  const auto address = [](const std::string& given, std::string& option) {
    if (!given.empty()) option = given;
  };
  address(command.http, options.http);
  address(command.grpc, options.grpc);
  address(command.admin, options.admin);
  options.admin_token_file = command.admin_token_file;
  options.state_folder = command.state;
  options.journal_folder = command.journal;
  if (!is_key_prefix(command.store_prefix)) {
    return "--store-prefix is '" + command.store_prefix +
           "'; it must be 1 to 64 letters, digits, and any of \"_-.:/\"";
  }
  options.store_prefix = command.store_prefix;
  if (auto fault = read_protects(command.protects, options.protects)) return fault;
  if (auto fault = read_tls(command, options.tls)) return fault;
  if (!command.lanes.empty()) {
    const auto lanes = parse_number(command.lanes);
    if (!lanes || *lanes == 0 || *lanes > kMaxLanes) {
      return "--lanes is '" + command.lanes + "'; it must be a whole number from 1 to " +
             std::to_string(kMaxLanes);
    }
    options.lanes = *lanes;
  }
  const auto duration = [](const char* name, const std::string& given,
                           Nanos& option) -> std::optional<std::string> {
    if (given.empty()) return std::nullopt;
    const auto parsed = policy::parse_duration(given);
    if (!parsed || *parsed < Nanos::zero()) {
      return std::string(name) + " is '" + given + "'; it must be " +
             std::string(policy::kDurationForm);
    }
    option = *parsed;
    return std::nullopt;
  };
  if (auto fault = duration("--drain-delay", command.drain_delay, options.drain_delay)) {
    return fault;
  }
  return duration("--drain-grace", command.drain_grace, options.drain_grace);
}

}  // namespace

ExitCode serve(Environment& environment, const ServeCommand& command) {
  if (command.policy.find("://") != std::string::npos) {
    return fail(environment, ExitCode::usage,
                "'" + command.policy + "' is no policy file; --store names a store");
  }
  server::ServeOptions options;
  options.policy_path = command.policy;
  if (const auto other = store_override(environment, command.store)) {
    if (const auto fault = fault_of(*other)) return fail(environment, ExitCode::usage, *fault);
    options.store_url = other->url;
  }
  options.json_logs = command.json;
  if (const auto fault = read(command, options)) {
    return fail(environment, ExitCode::usage, *fault);
  }
  environment.answers_on_out = false;
  return static_cast<ExitCode>(server::serve(options, environment.out, environment.err));
}

}  // namespace weir::cli
