#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace weir::policy {

struct Model;

// A name as envoyproxy/ratelimit gives its counters, and no counter's: where it is found out
// whether counters of that kind can be kept.
struct NameTrial {
  std::string name;
  std::string root;  // what the names of all counters of its domain begin with
  friend bool operator==(const NameTrial&, const NameTrial&) = default;
};

// Rights are given by the beginnings of names: so many of these are looked at.
inline constexpr std::size_t kMostNameTrials = 16;

// One for each key that descriptors of a domain begin with, of a limit below it: as that limit's
// counters are named, of a window that begins in 1970. None where the policy keeps its counters
// under Weir's own names.
std::vector<NameTrial> name_trials(const Model& model);

}  // namespace weir::policy
