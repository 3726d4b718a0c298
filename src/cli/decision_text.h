#pragma once

#include <string>

#include "weir/decision.h"

namespace weir::cli {

// One decision as a line for people, without its newline:
//   limited  login  retry after 12 s: 0 of 5 left (5 per minute by ip), …
std::string decision_text(const Decision& decision, bool colours);

}  // namespace weir::cli
