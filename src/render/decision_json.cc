#include "render/decision_json.h"

#include <chrono>

#include "render/text.h"

namespace weir::render {
namespace {

using std::chrono::milliseconds;

void append_ms(std::string& out, std::string_view member, const std::optional<Nanos>& value) {
  if (!value) return;
  out += member;
  append_number(out, ceil_to(*value, milliseconds(1)));
}

void append_rule(std::string& out, const RuleReport& rule) {
  out += "{\"rule\":";
  append_json_string(out, rule.rule);
  out += ",\"limit\":";
  append_number(out, rule.limit);
  if (rule.period > Nanos::zero()) {
    out += ",\"period_ms\":";
    append_decimal(out, rule.period, milliseconds(1));
  }
  if (rule.burst != 0 && rule.burst != rule.limit) {
    out += ",\"burst\":";
    append_number(out, rule.burst);
  }
  if (rule.remaining) {
    out += ",\"remaining\":";
    append_number(out, *rule.remaining);
  }
  append_ms(out, ",\"reset_after_ms\":", rule.reset_after);
  append_ms(out, ",\"retry_after_ms\":", rule.retry_after);
  if (!rule.fits) out += ",\"fits\":false";
  if (rule.shadow) out += ",\"shadow\":true";
  out += '}';
}

}  // namespace

void append_decision_members(std::string& out, const Decision& decision) {
  out += "\"verdict\":\"";
  out += to_string(decision.verdict);
  out += "\",\"rung\":\"";
  out += to_string(decision.rung);
  out += "\",\"reason\":\"";
  out += to_string(decision.reason);
  out += '"';
  if (decision.replayed) out += ",\"replayed\":true";
  if (!decision.route.empty()) {
    out += ",\"route\":";
    append_json_string(out, decision.route);
  }
  if (!decision.fault.empty()) {
    out += decision.reason == Reason::missing_value   ? ",\"lacks\":"
           : decision.reason == Reason::unknown_route ? ",\"nearest\":"
                                                      : ",\"fault\":";
    append_json_string(out, decision.fault);
  }
  if (!decision.allowed()) append_ms(out, ",\"retry_after_ms\":", decision.retry_after);
  out += ",\"rules\":[";
  bool first = true;
  for (const RuleReport& rule : decision.rules()) {
    if (!first) out += ',';
    first = false;
    append_rule(out, rule);
  }
  out += ']';
}

void append_decision_json(std::string& out, const Decision& decision) {
  out += '{';
  append_decision_members(out, decision);
  out += '}';
}

}  // namespace weir::render
