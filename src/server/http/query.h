#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::server::http {

// The parameters of a query, "a=b&c=%20", decoded, in their order. '+' is a blank, as forms send
// it. Nothing where an escape is malformed.
std::optional<std::vector<std::pair<std::string, std::string>>> parse_query(std::string_view query);

}  // namespace weir::server::http
