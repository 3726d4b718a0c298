#pragma once

#include <string>

#include "server/reload/policy_loader.h"
#include "weir/guard.h"

namespace weir::server {

// The policy in force and how the last load went, as one JSON object:
//   {"generation":3,"path":…,"files":[…],"sha256":…,"loaded_at":"2024-01-31T12:00:00Z",
//    "store":"memory:","routes":[…],"fault":{…}}
// `fault` is there only while the last load failed: at, message, and the faults with their places.
// The store's URL is shown without its password.
void append_policy_page(std::string& out, const Guard& guard, const PolicyLoader& loader);

// {"at":…,"message":…,"faults":[{"file":…,"line":…,"column":…,"field":…,"problem":…}]}
void append_load_fault(std::string& out, const LoadFault& fault);

}  // namespace weir::server
