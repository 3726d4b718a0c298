#include "cli/drill_target.h"

#include <algorithm>
#include <fstream>
#include <utility>
#include <vector>

#include "limit/numbers.h"
#include "policy/duration.h"
#include "policy/short_form.h"

namespace weir::cli {
namespace {

using Fault = std::optional<std::string>;

constexpr std::size_t kMostKeys = 100'000;

Fault read_limit(const std::string& text, drill::TargetOptions& options) {
  policy::Problem problem;
  const auto limit = policy::parse_short_limit(text, problem);
  if (!limit || !limit->by.empty()) {
    return "--limit is '" + text +
           "'; it must be as in '100 per minute', without `by`, which is --key";
  }
  const auto period = policy::period_of(limit->per, Algorithm::gcra);
  if (!period || limit->requests == 0) return "--limit is '" + text + "'; it limits nothing";
  options.limit = {.units = limit->requests, .period = Nanos{period->length.count()}};
  options.limit_text = text;
  return std::nullopt;
}

Fault read_key(const std::string& text, drill::TargetOptions& options) {
  policy::Problem problem;
  const auto key = policy::parse_source(text, {}, problem);
  using Kind = policy::SourceKind;
  if (!key ||
      (key->kind != Kind::header && key->kind != Kind::query && key->kind != Kind::cookie)) {
    return "--key is '" + text +
           "'; it must be header:NAME, query:NAME or cookie:NAME, by which the app tells its "
           "callers "
           "apart";
  }
  options.key = *key;
  return std::nullopt;
}

// Whether it can stand in the head of a request as it is.
bool is_field_text(const std::string& text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return (c >= 0 && c < ' ' && c != '\t') || c == 0x7f; });
}

Fault read_keys(const std::string& path, drill::TargetOptions& options) {
  if (path.empty()) return std::nullopt;
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    if (!is_field_text(line) || options.values.size() == kMostKeys) {
      return "--keys is '" + path + "'; it must have a key a line, " + std::to_string(kMostKeys) +
             " at most, of printable characters";
    }
    options.values.push_back(line);
  }
  // One for the caller who does not keep to the limit in each phase, and others for those who do.
  constexpr std::size_t kLeast = 10;
  if (options.values.size() < kLeast) {
    return "--keys is '" + path + "'; it must be a file of at least " + std::to_string(kLeast) +
           " keys, one a line";
  }
  return std::nullopt;
}

Fault read_request(const DrillCommand& command, drill::TargetOptions& options) {
  if (!command.method.empty()) options.method = command.method;
  const auto upper = [](char c) { return c >= 'A' && c <= 'Z'; };
  if (!std::all_of(options.method.begin(), options.method.end(), upper) ||
      options.method == "HEAD" || options.method == "CONNECT") {
    return "--method is '" + command.method + "'; it must be GET, POST, PUT, PATCH or DELETE";
  }
  for (const std::string& header : command.headers) {
    const std::size_t colon = header.find(':');
    if (colon == 0 || colon == std::string::npos || !is_field_text(header) ||
        header.find(' ') < colon) {
      return "--header is '" + header + "'; it must be as in 'Name: value'";
    }
    options.headers.push_back(header);
  }
  options.body = command.body;
  return std::nullopt;
}

Fault read_time(const char* name, const std::string& given, Nanos& to) {
  if (given.empty()) return std::nullopt;
  const auto time = policy::parse_duration(given);
  constexpr Nanos kMost = std::chrono::minutes(5);
  if (!time || *time <= Nanos{0} || *time > kMost) {
    return std::string(name) + " is '" + given + "'; it must be " +
           std::string(policy::kDurationForm) + ", up to 5m";
  }
  to = *time;
  return std::nullopt;
}

Fault read_trust(const DrillCommand& command, drill::TargetOptions& options) {
  for (const auto& [name, given] : {std::pair{"--tls-ca", !command.tls_ca.empty()},
                                    {"--tls-server-name", !command.tls_server_name.empty()},
                                    {"--insecure", command.insecure}}) {
    if (given && !options.url.tls) {
      return std::string(name) + " goes with an https address; --target is '" + command.target +
             "'";
    }
  }
  if (command.insecure && !command.tls_ca.empty()) {
    return "--tls-ca says who is to be trusted, --insecure that nobody looks: it must be one of "
           "them";
  }
  options.trust = {.server_name = command.tls_server_name,
                   .ca_file = command.tls_ca,
                   .unchecked = command.insecure};
  return std::nullopt;
}

Fault read_expected(const std::string& word, drill::TargetOptions& options) {
  using drill::Conduct;
  if (word.empty()) return std::nullopt;
  for (const Conduct each : {Conduct::open, Conduct::closed, Conduct::limits}) {
    if (to_string(each) != word) continue;
    options.expected = each;
    return std::nullopt;
  }
  return "--expect is '" + word + "'; it must be open, closed or limits";
}

}  // namespace

std::optional<std::string> read_target(const DrillCommand& command, drill::TargetOptions& options) {
  auto url = drill::parse_target_url(command.target);
  if (!url) return url.error().message;
  options.url = std::move(*url);
  options.url_text = command.target;
  for (auto fault :
       {read_limit(command.limit, options), read_key(command.key, options),
        read_keys(command.keys, options), read_request(command, options),
        read_trust(command, options), read_time("--timeout", command.timeout, options.patience),
        read_time("--wait", command.wait, options.wait), read_expected(command.expect, options)}) {
    if (fault) return fault;
  }
  return std::nullopt;
}

std::optional<std::string> mixed_up(const DrillCommand& command) {
  const std::vector<std::pair<const char*, bool>> of_targets = {
      {"--proxy-store", !command.proxy_store.empty()},
      {"--listen", !command.listen.empty()},
      {"--limit", !command.limit.empty()},
      {"--key", !command.key.empty()},
      {"--keys", !command.keys.empty()},
      {"--method", !command.method.empty()},
      {"--header", !command.headers.empty()},
      {"--body", !command.body.empty()},
      {"--tls-ca", !command.tls_ca.empty()},
      {"--tls-server-name", !command.tls_server_name.empty()},
      {"--insecure", command.insecure},
      {"--timeout", !command.timeout.empty()},
      {"--wait", !command.wait.empty()},
      {"--expect", !command.expect.empty()}};
  if (command.target.empty()) {
    for (const auto& [name, given] : of_targets) {
      if (given) return std::string(name) + " goes with --target";
    }
    return std::nullopt;
  }
  if (!command.store.empty() || !command.clients.empty() || !command.cost.empty()) {
    return std::string(
        "--store, --clients and --cost are for a policy; with --target it is --proxy-store");
  }
  for (const char* needed : {"--proxy-store", "--limit", "--key"}) {
    for (const auto& [name, given] : of_targets) {
      if (std::string_view(name) == needed && !given) {
        return "--target needs " + std::string(needed) + "; see weir drill --help";
      }
    }
  }
  return std::nullopt;
}

}  // namespace weir::cli
