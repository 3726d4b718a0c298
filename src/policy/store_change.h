#pragma once

#include <string>
#include <vector>

#include "policy/model.h"

namespace weir::policy {

// The fields of `store:` in which two differ, as a file names them: "store.deadline",
// "store.breaker.failures". None where they say the same. Two spellings of one deadline are the
// same.
std::vector<std::string> changed_fields(const StoreSpec& before, const StoreSpec& after);

}  // namespace weir::policy
