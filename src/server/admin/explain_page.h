#pragma once

#include <string>

#include "server/http/handler.h"
#include "weir/policy.h"

namespace weir::server {

// GET /explain?route=NAME&workers=N&outage=11s&format=text|json: what `weir explain` says, of the
// policy in force. JSON where `format` or Accept says so.
void answer_explain(const http::Request& request, const Policy& policy, http::Exchange& exchange);

}  // namespace weir::server
