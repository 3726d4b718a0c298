#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "drill/load/rls_ask.h"

namespace weir::cli {

// Where two services answered one request otherwise.
struct AnswerDifference {
  std::optional<std::size_t> descriptor;  // its place in the request; absent: the whole answer
  const char* field = "";  // overall_code, statuses; code, limit, remaining, reset of a descriptor
  std::string old_says;
  std::string new_says;
};

struct ComparisonRules {
  // Both count on one store, and the old one was asked first: so much less is left for the new one.
  std::uint64_t taken_between = 0;
  // Some limits are in shadow mode, and the answers do not tell which: one that lets a request pass
  // after the last units were taken is not held against it.
  bool shadow = false;
  // Seconds pass between two asks.
  std::int64_t reset_tolerance = 1;
};

// What differs, in the order of the descriptors.
std::vector<AnswerDifference> differences(const drill::RlsAnswer& old_answer,
                                          const drill::RlsAnswer& new_answer,
                                          const ComparisonRules& rules);

}  // namespace weir::cli
