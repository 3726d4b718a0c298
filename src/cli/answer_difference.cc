#include "cli/answer_difference.h"

#include <cstdlib>

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

void compare_statuses(std::size_t place, const Status& a, const Status& b,
                      const ComparisonRules& rules, std::vector<AnswerDifference>& out) {
  const std::uint64_t left = expected_left(a, rules);
  // On one budget the old one may have taken the last: then the new one is over, or it is a limit
  // in shadow mode, and that is not told.
  const bool last_taken =
      rules.taken_between > 0 && a.limited && a.code == "OK" && a.remaining < rules.taken_between;
  if (a.code != b.code && !last_taken) out.push_back({place, "code", a.code, b.code});
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

bool any_last_taken(const drill::RlsAnswer& answer, const ComparisonRules& rules) {
  for (const Status& status : answer.statuses) {
    if (rules.taken_between > 0 && status.limited && status.remaining < rules.taken_between) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::vector<AnswerDifference> differences(const drill::RlsAnswer& old_answer,
                                          const drill::RlsAnswer& new_answer,
                                          const ComparisonRules& rules) {
  std::vector<AnswerDifference> out;
  // What a budget's last units make of the whole is said of its descriptors.
  if (old_answer.overall != new_answer.overall && !any_last_taken(old_answer, rules)) {
    out.push_back({std::nullopt, "overall_code", old_answer.overall, new_answer.overall});
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
