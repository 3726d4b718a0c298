#pragma once

#include <string>

namespace weir::drill {

// What this runs on, in words: system, processor, cores.
std::string machine_in_words();

// The UTC time, to the second: 2026-01-31 12:00:00 UTC.
std::string time_in_words();

// A policy's text for others to read: what stands between a scheme and an '@' is left out.
std::string without_credentials(const std::string& text);

}  // namespace weir::drill
