#include "render/problem.h"

#include <algorithm>
#include <cstdint>

#include "render/decision_json.h"
#include "render/headers.h"
#include "render/status.h"
#include "render/text.h"

namespace weir::render {
namespace {

struct Kind {
  std::string_view type;
  std::string_view title;
};

constexpr Kind kQuotaExceeded = {"https://iana.org/assignments/http-problem-types#quota-exceeded",
                                 "The quota for these requests is used up"};
constexpr Kind kReducedCapacity = {
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
    "Requests of this kind cannot be served for the moment"};
constexpr std::string_view kBlank = "about:blank";  // the title is then the status's phrase

Kind kind_of(const Decision& decision, int status) {
  if (status == 429) return kQuotaExceeded;
  // What no waiting changes is not a temporary reduction.
  if (status == 503 && decision.reason != Reason::unmatched_request) return kReducedCapacity;
  return {kBlank, status_phrase(status)};
}

// The inside of a JSON string: names are quoted as \"name\".
void append_name(std::string& out, std::string_view name) {
  const std::size_t start = out.size();
  append_json_string(out, name);
  out.insert(start, 1, '\\');
  out.insert(out.size() - 1, 1, '\\');
}

// The inside of a JSON string.
void append_text(std::string& out, std::string_view text) {
  const std::size_t start = out.size();
  append_json_string(out, text);
  out.erase(start, 1);
  out.pop_back();
}

// limit "5 per minute by ip" (5 per 60 s)
void append_limit(std::string& out, const RuleReport* rule) {
  if (rule == nullptr) {
    out += "a limit";
    return;
  }
  out += "limit ";
  append_name(out, rule->rule);
  out += " (";
  append_number(out, rule->limit);
  if (rule->period > Nanos::zero()) {
    out += " per ";
    append_duration(out, rule->period);
  }
  out += ')';
}

void append_route(std::string& out, const Decision& decision) {
  if (decision.route.empty()) return;
  out += " of route ";
  append_name(out, decision.route);
}

void append_wait(std::string& out, const Decision& decision) {
  const auto seconds = retry_after_seconds(decision);
  if (!seconds) return;
  out += "; it has room for this request in ";
  append_number(out, *seconds);
  out += " s if nothing else is asked";
}

void append_detail(std::string& out, const Decision& decision) {
  const RuleReport* rule = described_rule(decision);
  const auto limit_of_route = [&] {
    append_limit(out, rule);
    append_route(out, decision);
  };
  switch (decision.reason) {
    case Reason::over_limit:
      limit_of_route();
      out += " is used up";
      append_wait(out, decision);
      return;
    case Reason::cost_exceeds_burst:
      limit_of_route();
      out += " never admits so much at once: ";
      append_number(out, rule == nullptr ? 0 : rule->burst);
      out += " is the most; waiting does not help";
      return;
    case Reason::blocked:
      limit_of_route();
      out += " admits nothing; waiting does not help";
      return;
    case Reason::over_share:
      limit_of_route();
      out += " cannot be checked for the moment, and the part of it that is left here ";
      out += decision.verdict == Verdict::limited ? "is used up" : "cannot hold this request";
      return;
    case Reason::over_ceiling:
      out += "the limits";
      append_route(out, decision);
      out += " cannot be checked for the moment, and the ceiling for that time is reached";
      return;
    case Reason::store_unavailable:
      limit_of_route();
      out += " cannot be checked for the moment, and its policy refuses what it cannot check";
      return;
    case Reason::unknown_route:
      out += "the policy has no such route";
      if (!decision.fault.empty()) {
        out += "; the nearest is ";
        append_name(out, decision.fault);
      }
      return;
    case Reason::unmatched_request:
      out += "no route of the policy matches this request, and the policy refuses such requests";
      return;
    case Reason::missing_value:
      limit_of_route();
      out += " needs ";
      if (decision.fault.empty()) {
        out += "a value that the request lacks";
        return;
      }
      append_name(out, decision.fault);
      out += ", and the request gives no value of it that can be counted";
      return;
    case Reason::invalid_request:
      if (decision.fault.empty()) {
        out += "the request is outside the stated bounds";
      } else {
        append_text(out, decision.fault);
      }
      return;
    case Reason::keys_exhausted:
      limit_of_route();
      out += " cannot be counted for the moment: every counter is in use";
      return;
    case Reason::key_reused:
      out +=
          "this idempotency key was used before, with other values or another cost; nothing was "
          "charged";
      return;
    case Reason::within_limit:
    case Reason::no_limit:
      out += "the request was allowed";
      return;
  }
}

void append_violated(std::string& out, const Decision& decision) {
  const auto rules = decision.rules();
  bool first = true;
  for (const RuleReport& rule : rules) {
    if (rule.fits || rule.shadow) continue;
    out += first ? ",\"violated-policies\":[" : ",";
    first = false;
    append_json_string(out, rule.rule);
  }
  if (!first) out += ']';
}

void append_head(std::string& out, const Kind& kind, int status) {
  out += "{\"type\":\"";
  out += kind.type;
  out += "\",\"title\":\"";
  out += kind.title;
  out += "\",\"status\":";
  append_number(out, static_cast<std::uint64_t>(status));
  out += ",\"detail\":";
}

}  // namespace

void append_problem(std::string& out, const Decision& decision) {
  const int status = http_status(decision);
  append_head(out, kind_of(decision, status), status);
  out += '"';
  append_detail(out, decision);
  out += "\",";
  append_decision_members(out, decision);
  append_violated(out, decision);
  out += '}';
}

void append_problem(std::string& out, int status, std::string_view detail) {
  append_head(out, {kBlank, status_phrase(status)}, status);
  append_json_string(out, detail);
  out += '}';
}

}  // namespace weir::render
