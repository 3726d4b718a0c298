#include <algorithm>
#include <string>
#include <vector>

#include "ladder/explain.h"
#include "policy/duration.h"

namespace weir::ladder {
namespace {

constexpr std::size_t kWidth = 100;

// Breaks a text into lines of at most `width` columns, at blanks.
std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> out(1);
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    std::string& line = out.back();
    if (!line.empty() && line.size() + 1 + word.size() > width)
      out.emplace_back(word);
    else
      line.append(line.empty() ? "" : " ").append(word);
    text = space == text.npos ? std::string_view{} : text.substr(space + 1);
  }
  return out;
}

void pad(std::string& line, std::size_t column) {
  if (line.size() < column) line.append(column - line.size(), ' ');
}

// A paragraph with a label before it: the label stands alone in its column.
void paragraph(std::string& out, std::size_t indent, std::string_view label, std::size_t column,
               std::string_view text) {
  bool first = true;
  for (const std::string& piece : wrapped(text, kWidth - column)) {
    std::string line(indent, ' ');
    if (first) line += label;
    pad(line, column);
    first = false;
    out += line + piece + "\n";
  }
}

// Three cells side by side, each a list of lines.
using Cell = std::vector<std::string>;
void row(std::string& out, const Cell& a, const Cell& b, const Cell& c) {
  constexpr std::size_t kFirst = 2;
  constexpr std::size_t kSecond = 15;
  constexpr std::size_t kThird = 62;
  const std::size_t lines = std::max({a.size(), b.size(), c.size()});
  for (std::size_t i = 0; i < lines; ++i) {
    std::string line(kFirst, ' ');
    if (i < a.size()) line += a[i];
    if (i < b.size() && !b[i].empty()) {
      pad(line, kSecond);
      line += b[i];
    }
    if (i < c.size() && !c[i].empty()) {
      pad(line, kThird);
      line += c[i];
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
}

Cell answers_cell(const StateOfStore& state) {
  Cell out;
  for (const Answer& answer : state.answers) {
    const std::string text = std::to_string(answer.status) + " " +
                             std::string(to_string(answer.verdict)) + ": " + answer.when;
    for (std::string& line : wrapped(text, 45))
      out.push_back((out.empty() || line.starts_with(std::to_string(answer.status)) ? "" : "  ") +
                    line);
  }
  return out;
}

// "(1)": how the table calls a rule, where a route has several.
std::string mark(std::size_t index, std::size_t rules) {
  return rules == 1 ? "" : "(" + std::to_string(index + 1) + ") ";
}

std::string number_text(const RuleBound& bound, bool shadow) {
  if (!bound.most) return shadow ? "no bound: shadow" : "no bound";
  return *bound.most == 0 ? "none" : std::to_string(*bound.most);
}

Cell bounds_cell(const StateOfStore& state, const std::vector<ExplainedRule>& rules) {
  Cell out;
  for (std::size_t i = 0; i < state.bounds.size(); ++i)
    out.push_back(mark(i, rules.size()) + number_text(state.bounds[i], rules[i].shadow));
  return out;
}

std::string flags(const ExplainedRule& rule) {
  std::string out;
  if (rule.shadow) out += "; shadow: counted, never denies";
  if (rule.meter) out += "; metered";
  if (rule.exemptions > 0)
    out += "; " + std::to_string(rule.exemptions) + " exempt: nothing holds them";
  if (rule.overrides > 0)
    out += "; " + std::to_string(rule.overrides) +
           (rule.overrides == 1 ? " value has its own number" : " values have their own numbers") +
           ", at most " + std::to_string(rule.most_of_overrides) +
           " in a window: the bounds below are for the largest";
  return out;
}

void rules_text(std::string& out, const ExplainedRoute& route) {
  for (std::size_t i = 0; i < route.rules.size(); ++i) {
    const ExplainedRule& rule = route.rules[i];
    out += "  " + mark(i, route.rules.size()) + rule.name + "\n";
    paragraph(out, 6, "", 6,
              std::string(to_string(rule.numbers.algorithm)) + ": " + rule.counted + flags(rule));
  }
  if (route.rules.empty()) out += "  no limits: everything is allowed\n";
}

std::string head(const ExplainedRoute& route) {
  std::string out = route.heading;
  for (std::size_t i = 0; i < route.matches.size(); ++i)
    out += (i == 0 ? "   for " : " or ") + route.matches[i];
  return out;
}

void outage_text(std::string& out, const ExplainedRoute& route) {
  const ExplainedOutage& outage = *route.outage;
  std::string text =
      "In " + policy::to_text(outage.length) + " without it one key is admitted at most";
  for (std::size_t i = 0; i < outage.bounds.size(); ++i)
    text +=
        (i > 0 ? ", " : " ") + mark(i, outage.bounds.size()) +
        (outage.bounds[i].most == 0 ? "0" : number_text(outage.bounds[i], route.rules[i].shadow));
  if (outage.all_keys)
    text += "; all keys together, under the ceiling, " + std::to_string(*outage.all_keys);
  text += ". All keys ask it again at most " + policy::to_text(outage.back_within) +
          " after its first answer.";
  paragraph(out, 2, "an outage", 15, text);
}

std::string policy_in_words(FailurePolicy policy) {
  switch (policy) {
    case FailurePolicy::closed:
      return "closed, it refuses";
    case FailurePolicy::bounded:
      return "bounded, each worker admits its part";
    case FailurePolicy::settle:
      return "settle, each worker admits its part, then serves and records what is metered";
    case FailurePolicy::open:
      return "open, it allows";
  }
  return {};
}

void table_text(std::string& out, const ExplainedRoute& route, const std::string& deadline) {
  row(out, {"the store"}, {"a request gets"}, {"one key, one window: at most"});
  for (const StateOfStore& state : route.states) {
    Cell answers = answers_cell(state);
    if (state.state == StoreState::slow)
      answers = {"within " + deadline + ", as when it answers;", "later, as when it is away"};
    if (state.state == StoreState::returning)
      answers = {"as when it answers; of keys not yet back,", "as when it is away"};
    row(out, {std::string(to_string(state.state))}, answers, bounds_cell(state, route.rules));
  }
}

bool in_shadow(const ExplainedRoute& route) {
  return !route.rules.empty() && std::all_of(route.rules.begin(), route.rules.end(),
                                             [](const ExplainedRule& rule) { return rule.shadow; });
}

void route_text(std::string& out, const Explanation& explanation, const ExplainedRoute& route) {
  out += head(route) + "\n";
  std::string reason = route.policy_reason;
  if (in_shadow(route))
    reason += "; in shadow: it counts, and denies nobody, with its store or without";
  else if (route.decided)
    reason += "; without its store: " + policy_in_words(route.policy);
  if (!in_shadow(route) && !route.ceiling.empty() && route.policy != FailurePolicy::closed)
    reason += ", under a ceiling of " + route.ceiling + " in each worker";
  if (!route.rules.empty()) paragraph(out, 2, "", 2, reason);
  out += "\n";
  rules_text(out, route);
  if (route.rules.empty()) return;
  out += "\n";
  table_text(out, route, explanation.deadline);
  out += "\n";
  for (const StateOfStore& state : route.states)
    if (state.state == StoreState::away) paragraph(out, 2, "away", 15, state.meaning);
  for (std::size_t i = 0; i < route.besides.size(); ++i)
    paragraph(out, 2, i == 0 ? "besides" : "", 15, route.besides[i]);
  if (route.outage) outage_text(out, route);
}

}  // namespace

std::string explain_text(const Explanation& explanation) {
  std::string out = "store " + explanation.store;
  if (!explanation.embedded || explanation.workers > 1)
    out += ", " + std::to_string(explanation.workers) +
           (explanation.workers == 1 ? " worker" : " workers");
  if (explanation.regions > 1)
    out += " in each of " + std::to_string(explanation.regions) + " regions";
  out += "\n";
  for (const std::string& fact : explanation.store_facts) paragraph(out, 2, "", 2, fact);
  for (const std::string& fact : explanation.request_facts) paragraph(out, 2, "", 2, fact);
  for (const ExplainedRoute& route : explanation.routes) {
    out += "\n";
    route_text(out, explanation, route);
  }
  if (explanation.plan) out += "\n" + outage_text(*explanation.plan);
  for (const ExplainedSafeguard& safeguard : explanation.safeguards) {
    out += "\n" + safeguard.kind + " " + safeguard.name + "\n";
    for (const std::string& fact : safeguard.facts) paragraph(out, 2, "", 2, fact);
  }
  return out;
}

}  // namespace weir::ladder
