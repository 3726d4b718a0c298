#pragma once

#include <string>

#include "policy/model.h"

namespace weir::policy {

// The first field of `store:` in which two differ, as a file names it: "store.deadline",
// "store.breaker.failures". Empty where they say the same. Two spellings of one deadline are the
// same.
std::string changed_field(const StoreSpec& before, const StoreSpec& after);

}  // namespace weir::policy
