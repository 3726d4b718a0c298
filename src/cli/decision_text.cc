#include "cli/decision_text.h"

#include "render/headers.h"
#include "render/text.h"

namespace weir::cli {
namespace {

constexpr std::size_t kVerdictWidth = 7;  // "allowed", "limited", "refused"

std::string_view colour_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::allowed:
      return "\x1b[32m";
    case Verdict::limited:
      return "\x1b[33m";
    case Verdict::refused:
      return "\x1b[31m";
  }
  return "";
}

void append_verdict(std::string& out, Verdict verdict, bool colours) {
  const std::string_view word = to_string(verdict);
  if (colours) out += colour_of(verdict);
  out += word;
  if (colours) out += "\x1b[0m";
  out.append(kVerdictWidth - word.size(), ' ');
}

std::string_view why(Reason reason) {
  switch (reason) {
    case Reason::within_limit:
    case Reason::over_limit:
      return "";  // the rules say it
    case Reason::cost_exceeds_burst:
      return "the cost can never fit";
    case Reason::blocked:
      return "the limit is 0";
    case Reason::no_limit:
      return "no limit applies";
    case Reason::store_unavailable:
      return "the store could not be asked";
    case Reason::over_share:
      return "over this process's part";
    case Reason::over_ceiling:
      return "over the route's ceiling";
    case Reason::unknown_route:
      return "no such route";
    case Reason::unmatched_request:
      return "no route matches";
    case Reason::missing_value:
      return "a value is missing";
    case Reason::invalid_request:
      return "outside the stated bounds";
    case Reason::keys_exhausted:
      return "every counter is in use";
    case Reason::key_reused:
      return "its idempotency key was used for another request";
  }
  return "";
}

// What is wrong with a request that was: the value it lacks and the rule that needs it, or its
// fault; else the reason alone.
void append_why(std::string& out, const Decision& decision) {
  const bool lacks = decision.reason == Reason::missing_value && !decision.rules().empty();
  if (decision.fault.empty() || (decision.reason == Reason::missing_value && !lacks)) {
    out += why(decision.reason);
  } else if (lacks) {
    out.append("no value of ").append(decision.fault).append(" that can be counted, which ");
    out.append(decision.rules().front().rule).append(" needs");
  } else {
    out += decision.fault;
  }
}

void append_rule(std::string& out, const RuleReport& rule) {
  if (rule.remaining) {
    render::append_number(out, *rule.remaining);
    out += " of ";
    render::append_number(out, rule.burst != 0 ? rule.burst : rule.limit);
    out += " left";
  } else {
    out += "not known how much is left";
  }
  out += " (";
  out += rule.rule;
  if (rule.shadow) out += rule.fits ? ", shadow" : ", shadow: would deny";
  out += ')';
}

}  // namespace

std::string decision_text(const Decision& decision, bool colours) {
  std::string out;
  append_verdict(out, decision.verdict, colours);
  if (!decision.route.empty()) {
    out += "  ";
    out += decision.route;
  }
  std::string_view between = "  ";
  const auto part = [&](auto append, std::string_view next) {
    out += between;
    append();
    between = next;
  };
  if (!why(decision.reason).empty()) part([&] { append_why(out, decision); }, "; ");
  if (decision.rung != Rung::store && decision.reason != Reason::no_limit &&
      decision.verdict != Verdict::refused) {
    part([&] { out.append("decided by ").append(to_string(decision.rung)); }, "; ");
  }
  if (const auto seconds = render::retry_after_seconds(decision)) {
    part(
        [&] {
          out += "retry after ";
          render::append_number(out, *seconds);
          out += " s";
        },
        "; ");
  }
  if (decision.reason == Reason::missing_value) return out;  // it said the rule
  if (between == "; ") between = ": ";
  for (const RuleReport& rule : decision.rules()) {
    part([&] { append_rule(out, rule); }, ", ");
  }
  return out;
}

}  // namespace weir::cli
