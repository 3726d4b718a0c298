#include "server/serve/ready_text.h"

#include <algorithm>
#include <vector>

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

// As one word of a POSIX shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

void append_line(std::string& out, std::string_view name, const Address& address) {
  if (address.kind == Address::Kind::off) return;
  out += "  ";
  out += name;
  out.append(name.size() < 7 ? 7 - name.size() : 1, ' ');
  out += name == "grpc" || address.url().empty() ? address.text() : address.url();
  out += '\n';
}

}  // namespace

std::string try_line(const Address& http, const policy::Model& model) {
  if (http.kind == Address::Kind::off) return {};
  const auto route = std::find_if(model.routes.begin(), model.routes.end(),
                                  [](const policy::Route& each) { return !each.rules.empty(); });
  if (route == model.routes.end()) return {};
  std::vector<std::string> sources;
  for (const policy::Rule& rule : route->rules) {
    for (const policy::Source& source : rule.by) {
      if (std::find(sources.begin(), sources.end(), source.text) == sources.end()) {
        sources.push_back(source.text);
      }
    }
  }
  std::string body = "{\"route\":";
  render::append_json_string(body, route->name);
  body += ",\"descriptors\":{";
  for (const std::string& source : sources) {
    if (!body.ends_with('{')) body += ',';
    render::append_json_string(body, source);
    body += ':';
    render::append_json_string(body, example_of(source));
  }
  body += "}}";
  const bool local = http.kind == Address::Kind::unix_socket;
  return "curl -si " +
         (local ? "--unix-socket " + quoted(http.path) + " http://weir" : http.url()) +
         "/v1/check -d " + quoted(body);
}

std::string ready_text(const ReadyFacts& facts, const policy::Model& model) {
  std::string out = "weir ";
  out += kVersion;
  out += " is ready: " + facts.policy_path + ", " + std::to_string(model.routes.size()) +
         (model.routes.size() == 1 ? " route, " : " routes, ") + std::to_string(facts.lanes) +
         (facts.lanes == 1 ? " lane\n" : " lanes\n");
  append_line(out, "http", facts.http);
  append_line(out, "grpc", facts.grpc);
  append_line(out, "admin", facts.admin);
  if (const std::string line = try_line(facts.http, model); !line.empty()) {
    out += "try:\n  " + line + "\n";
  }
  return out;
}

}  // namespace weir::server
