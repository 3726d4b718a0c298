#include "server/serve/ready_text.h"

#include <algorithm>
#include <vector>

#include "base/shell_word.h"
#include "policy/fault_list.h"
#include "policy/store_url.h"
#include "render/text.h"
#include "weir/version.h"

namespace weir::server {
namespace {

// A value that a reader recognises as an example.
std::string example_of(const std::string& source) {
  if (source == "ip") return "192.0.2.7";
  if (source == "path") return "/";
  if (source == "method") return "GET";
  return "example";
}

// What a door's addresses begin with.
std::string url(const Address& address, Scheme scheme) {
  std::string text = address.url();
  if (scheme == Scheme::https && text.starts_with("http:")) text.insert(4, "s");
  return text;
}

bool speaks_tls(const ServeTls& tls, bool door) {
  return door && !tls.cert_file.empty();
}

std::string counted(std::size_t count, std::string_view what) {
  return std::to_string(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

// Asks about a route by each of its sources.
std::string body_of(const policy::Route& route) {
  std::vector<std::string> sources;
  for (const policy::Rule& rule : route.rules) {
    for (const policy::Source& source : rule.by) {
      if (std::find(sources.begin(), sources.end(), source.text) == sources.end()) {
        sources.push_back(source.text);
      }
    }
  }
  std::string body = "{\"route\":";
  render::append_json_string(body, route.name);
  body += ",\"descriptors\":{";
  for (const std::string& source : sources) {
    if (!body.ends_with('{')) body += ',';
    render::append_json_string(body, source);
    body += ':';
    render::append_json_string(body, example_of(source));
  }
  return body + "}}";
}

// Asks about the way to a domain's first limit.
std::string body_of(const policy::Domain& domain) {
  std::string body = "{\"domain\":";
  render::append_json_string(body, domain.name);
  body += ",\"descriptors\":[{\"entries\":[";
  for (const policy::DescriptorLevel& level : domain.limits.front().levels) {
    if (!body.ends_with('[')) body += ',';
    std::string value = level.value.empty() ? example_of(level.key) : level.value;
    // A star stands for anything, a star as well as nothing.
    std::erase(value, '*');
    body += "{\"key\":";
    render::append_json_string(body, level.key);
    body += ",\"value\":";
    render::append_json_string(body, value);
    body += '}';
  }
  return body + "]}]}";
}

std::string curl(const Address& http, Scheme scheme, std::string_view path,
                 const std::string& body) {
  const bool local = http.kind == Address::Kind::unix_socket;
  const std::string secure = scheme == Scheme::https ? "s" : "";
  // The certificate names the service, not the loopback address that this line tries.
  return "curl -si " + std::string(secure.empty() ? "" : "--insecure ") +
         (local ? "--unix-socket " + shell_word(http.path) + " http" + secure + "://weir"
                : url(http, scheme)) +
         std::string(path) + " -d " + shell_word(body);
}

void append_line(std::string& out, std::string_view name, const Address& address, Scheme scheme) {
  if (address.kind == Address::Kind::off) return;
  out += "  ";
  out += name;
  out.append(name.size() < 7 ? 7 - name.size() : 1, ' ');
  if (name == "grpc" || address.url().empty()) {
    out += address.text();
    if (scheme == Scheme::https) out += " (TLS)";
  } else {
    out += url(address, scheme);
    // The URL is to be tried from here; who may come from elsewhere must be seen, too.
    if (address.url() != "http://" + address.text()) out += " (on " + address.text() + ")";
  }
  out += '\n';
}

}  // namespace

std::size_t domain_limits(const policy::Model& model) {
  std::size_t count = 0;
  for (const policy::Domain& domain : model.domains) count += domain.limits.size();
  return count;
}

std::string policy_summary(const policy::Model& model) {
  if (model.domains.empty()) return counted(model.routes.size(), "route");
  std::string out;
  if (!model.routes.empty()) out = counted(model.routes.size(), "route") + ", ";
  out += model.domains.size() == 1 ? "domain " + policy::shown(model.domains.front().name)
                                   : counted(model.domains.size(), "domain");
  return out + " with " + counted(domain_limits(model), "limit");
}

std::string try_line(const Address& http, const policy::Model& model, Scheme scheme) {
  if (http.kind == Address::Kind::off) return {};
  const auto route = std::find_if(model.routes.begin(), model.routes.end(),
                                  [](const policy::Route& each) { return !each.rules.empty(); });
  if (route != model.routes.end()) return curl(http, scheme, "/v1/check", body_of(*route));
  const auto domain = std::find_if(model.domains.begin(), model.domains.end(),
                                   [](const policy::Domain& each) { return !each.limits.empty(); });
  if (domain != model.domains.end()) return curl(http, scheme, "/json", body_of(*domain));
  return {};
}

std::string store_line(const policy::StoreSpec& spec, bool answers, const guard::WorkerPart& part) {
  std::string out = policy::redacted(spec.url) + (answers ? " answers" : " does not answer");
  if (part.worker.empty()) return out;
  out += "; worker " + part.worker;
  if (!part.has_part) return out + " has no part of any limit without it: " + part.why_none;
  return out + " holds a part, one of " + std::to_string(part.workers);
}

std::string fallback_line(const policy::StoreSpec& spec,
                          const std::optional<guard::SharedStore::Fallback>& fallback) {
  if (!fallback || !spec.fallback_url) return {};
  std::string out = policy::redacted(*spec.fallback_url);
  if (fallback->answers) return out + " answers";
  out += " does not answer";
  return fallback->trouble.empty() ? out : out + ": " + fallback->trouble;
}

std::string ready_text(const ReadyFacts& facts, const policy::Model& model) {
  std::string out = "weir ";
  out += kVersion;
  out += " is ready: " + facts.policy_path + ", " + policy_summary(model) + ", " +
         counted(facts.lanes, "lane") + "\n";
  const auto scheme = [&facts](bool door) {
    return speaks_tls(facts.tls, door) ? Scheme::https : Scheme::http;
  };
  append_line(out, "http", facts.http, scheme(facts.tls.http));
  append_line(out, "grpc", facts.grpc, scheme(facts.tls.grpc));
  append_line(out, "admin", facts.admin, scheme(facts.tls.admin));
  if (!facts.store.empty()) out += "  store  " + facts.store + "\n";
  if (!facts.fallback.empty()) out += "  fallback " + facts.fallback + "\n";
  // Who must show a certificate has more to type than a line.
  if (speaks_tls(facts.tls, facts.tls.http) && !facts.tls.client_ca_file.empty()) return out;
  const std::string line = try_line(facts.http, model, scheme(facts.tls.http));
  if (!line.empty()) {
    out += "try:\n  " + line + "\n";
  }
  return out;
}

}  // namespace weir::server
