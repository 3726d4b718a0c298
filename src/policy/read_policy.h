#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "policy/fault_list.h"
#include "policy/model.h"

namespace weir::policy {

inline constexpr std::size_t kMaxRoutes = 10'000;
inline constexpr std::size_t kMaxInputs = 64;
inline constexpr std::size_t kMaxTrustedProxies = 1'000;

// Reads a whole native policy file; the domains that its `rls:` names, and the matcher, are the
// loader's (load.h). Where a fault stands against loading, what could be read beside it.
//
// Errors:      absent where the text is no policy at all.
std::shared_ptr<Model> read_policy(std::string_view text, FaultList& faults);

// In hexadecimal.
std::string sha256(std::string_view text);

// What holds across routes, for files and for code alike: no two identities that share a hash, no
// shared counter with two sets of numbers.
struct CrossFault {
  Place place;
  std::string field;
  std::string what;
  std::string allowed;
};
std::vector<CrossFault> check_across_routes(const std::vector<Route>& routes);

}  // namespace weir::policy
