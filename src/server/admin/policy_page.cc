#include "server/admin/policy_page.h"

#include <chrono>
#include <cstdio>

#include "policy/model.h"
#include "policy/store_url.h"
#include "render/text.h"

namespace weir::server {
namespace {

void append_member(std::string& out, std::string_view name, std::string_view value) {
  if (!out.ends_with('{')) out += ',';
  render::append_json_string(out, name);
  out += ':';
  render::append_json_string(out, value);
}

void append_member(std::string& out, std::string_view name, std::uint64_t value) {
  if (!out.ends_with('{')) out += ',';
  render::append_json_string(out, name);
  out += ':';
  render::append_number(out, value);
}

// "2024-01-31T12:00:00Z"
std::string utc(Instant at) {
  const auto second = std::chrono::floor<std::chrono::seconds>(at);
  const auto day = std::chrono::floor<std::chrono::days>(second);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(second - day);
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                static_cast<int>(time.seconds().count()));
  return text;
}

template <class Items, class Name>
void append_names(std::string& out, std::string_view member, const Items& items, Name&& name) {
  out += ',';
  render::append_json_string(out, member);
  out += ":[";
  bool first = true;
  for (const auto& each : items) {
    if (!first) out += ',';
    first = false;
    render::append_json_string(out, name(each));
  }
  out += ']';
}

}  // namespace

void append_load_fault(std::string& out, const LoadFault& fault) {
  out += '{';
  append_member(out, "at", utc(fault.at));
  append_member(out, "message", fault.message);
  out += ",\"faults\":[";
  bool first = true;
  for (const Fault& each : fault.faults) {
    if (!first) out += ',';
    first = false;
    out += '{';
    append_member(out, "file", each.file);
    if (each.line > 0) append_member(out, "line", static_cast<std::uint64_t>(each.line));
    if (each.column > 0) append_member(out, "column", static_cast<std::uint64_t>(each.column));
    if (!each.field.empty()) append_member(out, "field", each.field);
    if (!each.value.empty()) append_member(out, "value", each.value);
    append_member(out, "problem", each.problem);
    if (!each.allowed.empty()) append_member(out, "allowed", each.allowed);
    out += '}';
  }
  out += "]}";
}

void append_policy_page(std::string& out, const Guard& guard, const PolicyLoader& loader) {
  const Policy policy = guard.policy();
  const policy::Model& model = policy.model();
  out += '{';
  append_member(out, "generation", guard.generation());
  append_member(out, "path", loader.origin().path);
  append_names(out, "files", model.files, [](const std::string& each) { return each; });
  append_member(out, "sha256", model.text_sha256);
  append_member(out, "loaded_at", utc(loader.loaded_at()));
  append_member(out, "store", policy::redacted(model.store.url));
  append_names(out, "routes", model.routes, [](const policy::Route& each) { return each.name; });
  if (!model.domains.empty()) {
    append_names(out, "domains", model.domains,
                 [](const policy::Domain& each) { return each.name; });
  }
  if (loader.fault()) {
    out += ",\"fault\":";
    append_load_fault(out, *loader.fault());
  }
  out += "}\n";
}

}  // namespace weir::server
