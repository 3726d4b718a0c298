#include "server/http/rate_limit_json.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "render/headers.h"
#include "render/status.h"
#include "render/text.h"

namespace weir::server::http {
namespace {

constexpr std::string_view kUnits[] = {"UNKNOWN", "SECOND", "MINUTE", "HOUR",
                                       "DAY",     "MONTH",  "YEAR",   "WEEK"};

std::uint64_t clamp32(std::uint64_t value) noexcept {
  return std::min<std::uint64_t>(value, std::numeric_limits<std::uint32_t>::max());
}

std::string_view code_of(bool over) noexcept {
  return over ? "OVER_LIMIT" : "OK";
}

void append_member(std::string& out, std::string_view name, std::uint64_t value) {
  if (value == 0) return;
  out += out.ends_with('{') ? "\"" : ",\"";
  out += name;
  out += "\":";
  render::append_number(out, value);
}

void append_member(std::string& out, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  out += out.ends_with('{') ? "\"" : ",\"";
  out += name;
  out += "\":";
  render::append_json_string(out, value);
}

void append_status(std::string& out, const guard::DescriptorStatus& status) {
  out += "{";
  append_member(out, "code", code_of(status.over));
  if (status.limit) {
    out += ",\"currentLimit\":{";
    append_member(out, "requestsPerUnit", clamp32(status.limit->requests_per_unit));
    if (status.limit->unit != guard::LimitUnit::unknown) {
      append_member(out, "unit", kUnits[static_cast<std::size_t>(status.limit->unit)]);
    }
    append_member(out, "name", status.limit->name);
    out += '}';
  }
  append_member(out, "limitRemaining", clamp32(status.remaining));
  if (const auto seconds = status.reset_seconds()) {
    append_member(out, "durationUntilReset", std::to_string(*seconds) + "s");
  }
  out += '}';
}

void append_headers(std::string& out, const Decision& decision) {
  std::string lines;
  render::append_proxy_headers(lines, decision);
  if (lines.empty()) return;
  out += ",\"responseHeadersToAdd\":[";
  for (std::string_view rest = lines; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find("\r\n"));
    rest.remove_prefix(line.size() + 2);
    const std::size_t colon = line.find(": ");
    out += out.ends_with('[') ? "{" : ",{";
    append_member(out, "key", line.substr(0, colon));
    append_member(out, "value", line.substr(colon + 2));
    out += '}';
  }
  out += ']';
}

// The later of two limits wins, as protobuf merges maps.
void append_metadata(std::string& out, const guard::RateLimitAnswer& answer) {
  auto all = nlohmann::ordered_json::object();
  for (const std::string_view text : answer.metadata) {
    all.update(nlohmann::ordered_json::parse(text, nullptr, false));
  }
  const Decision& decision = answer.decision;
  if (render::remarkable(decision)) {
    all["weir_verdict"] = to_string(decision.verdict);
    all["weir_rung"] = to_string(decision.rung);
    all["weir_reason"] = to_string(decision.reason);
    const bool lacks = decision.reason == Reason::missing_value;
    if (!decision.fault.empty()) all[lacks ? "weir_lacks" : "weir_fault"] = decision.fault;
    if (lacks && !decision.rules().empty()) all["weir_rule"] = decision.rules().front().rule;
  }
  if (all.empty()) return;
  out += ",\"dynamicMetadata\":";
  out += all.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

void append_rate_limit_json(std::string& out, const guard::RateLimitAnswer& answer) {
  out += "{";
  append_member(out, "overallCode", code_of(!answer.decision.allowed()));
  if (!answer.statuses.empty()) {
    out += ",\"statuses\":[";
    for (const guard::DescriptorStatus& status : answer.statuses) {
      if (!out.ends_with('[')) out += ',';
      append_status(out, status);
    }
    out += ']';
  }
  append_headers(out, answer.decision);
  append_metadata(out, answer);
  out += '}';
}

}  // namespace weir::server::http
