#include "cli/answer_difference.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace weir::cli {
namespace {

using Status = drill::RlsAnswer::Status;

std::string limit_text(const Status& status) {
  if (!status.limited) return "none";
  std::string out = std::to_string(status.requests_per_unit) + " per " + status.unit;
  if (!status.name.empty()) out += " (" + status.name + ")";
  return out;
}

std::string reset_text(const std::optional<std::int64_t>& seconds) {
  return seconds ? std::to_string(*seconds) + " s" : "none";
}

bool near(const std::optional<std::int64_t>& a, const std::optional<std::int64_t>& b,
          std::int64_t tolerance) {
  if (!a || !b) return a.has_value() == b.has_value();
  return std::abs(*a - *b) <= tolerance;
}

// What the new service is to have left after the old one said what it has.
std::uint64_t expected_left(const Status& old_status, const ComparisonRules& rules) {
  if (!old_status.limited || rules.taken_between == 0) return old_status.remaining;
  return old_status.remaining < rules.taken_between ? 0
                                                    : old_status.remaining - rules.taken_between;
}

// On one budget, whether the old service took what the new one would have needed.
bool last_taken(const Status& old_status, const ComparisonRules& rules) {
  return rules.taken_between > 0 && old_status.limited && old_status.code == "OK" &&
         old_status.remaining < rules.taken_between;
}

// What the new service's code is held against: absent, nothing.
std::optional<AnswerDifference> code_difference(std::optional<std::size_t> place, const char* field,
                                                const std::string& old_code,
                                                const std::string& new_code, bool last,
                                                const ComparisonRules& rules) {
  const bool due = last ? new_code == "OVER_LIMIT" || rules.shadow : new_code == old_code;
  if (due) return std::nullopt;
  return AnswerDifference{place, field, last ? old_code + " with the last units" : old_code,
                          new_code};
}

void compare_statuses(std::size_t place, const Status& a, const Status& b,
                      const ComparisonRules& rules, std::vector<AnswerDifference>& out) {
  const std::uint64_t left = expected_left(a, rules);
  if (auto code = code_difference(place, "code", a.code, b.code, last_taken(a, rules), rules)) {
    out.push_back(*std::move(code));
  }
  if (limit_text(a) != limit_text(b)) {
    out.push_back({place, "limit", limit_text(a), limit_text(b)});
  }
  if (left != b.remaining) {
    out.push_back({place, "remaining", std::to_string(left), std::to_string(b.remaining)});
  }
  if (!near(a.reset_seconds, b.reset_seconds, rules.reset_tolerance)) {
    out.push_back({place, "reset", reset_text(a.reset_seconds), reset_text(b.reset_seconds)});
  }
}

}  // namespace

std::vector<AnswerDifference> differences(const drill::RlsAnswer& old_answer,
                                          const drill::RlsAnswer& new_answer,
                                          const ComparisonRules& rules) {
  std::vector<AnswerDifference> out;
  const bool last = old_answer.overall == "OK" &&
                    std::any_of(old_answer.statuses.begin(), old_answer.statuses.end(),
                                [&](const Status& status) { return last_taken(status, rules); });
  if (auto code = code_difference(std::nullopt, "overall_code", old_answer.overall,
                                  new_answer.overall, last, rules)) {
    out.push_back(*std::move(code));
  }
  if (old_answer.statuses.size() != new_answer.statuses.size()) {
    out.push_back({std::nullopt, "statuses", std::to_string(old_answer.statuses.size()),
                   std::to_string(new_answer.statuses.size())});
    return out;
  }
  for (std::size_t i = 0; i < old_answer.statuses.size(); ++i) {
    compare_statuses(i, old_answer.statuses[i], new_answer.statuses[i], rules, out);
  }
  return out;
}

}  // namespace weir::cli
