#pragma once

#include "policy/model.h"
#include "weir/result.h"

namespace weir::guard {

// Whether a Guard could be opened on this policy, or take it at a reload, as far as the policy
// alone tells: no store, file or folder that it names is looked at.
//
// Errors:      failed_precondition, invalid_argument: what of it is not in this release, or what it
//              does not say; begins with the field.
Result<void> check_openable(const policy::Model& model);

// Whether the keys that the policy counts under are in a store that another server shares.
//
// Errors:      failed_precondition, where they are another server's and the store is this
//              process's.
Result<void> check_keys(const policy::Model& model, bool shared);

// How the fallback store is asked: as the first one, but for what its URL says itself.
//
// Requires:    spec.fallback_url; policy::parse_store_url() takes it.
policy::StoreSpec fallback_spec(const policy::StoreSpec& spec);

}  // namespace weir::guard
