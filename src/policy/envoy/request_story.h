#pragma once

#include <string>
#include <string_view>

#include "policy/model.h"
#include "weir/result.h"

namespace weir::policy {

// Which limit a request meets, and why not another: "shop user=ada,path=/x" is a domain and one
// descriptor's entries. A '\' before ',', '=' or '\' takes it as it is.
//
// Errors:      invalid_argument: the request is not written so; not_found: no such domain.
Result<std::string> request_story(const Model& model, std::string_view request);

}  // namespace weir::policy
