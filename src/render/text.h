#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "weir/clock.h"

// Appending to a std::string: what JSON, headers, metrics and log lines are written with. None of
// these clears `out`, so one buffer serves many answers without allocating.
namespace weir::render {

void append_number(std::string& out, std::uint64_t value);
void append_number(std::string& out, std::int64_t value);

// Whole units of `unit`, rounded up; negative counts as 0.
std::uint64_t ceil_to(Nanos value, Nanos unit) noexcept;

// `value` in units of `unit` as an exact decimal without trailing zeros: 1500 us in ms is "1.5".
// Requires: unit is a power of ten.
void append_decimal(std::string& out, Nanos value, Nanos unit);

// "90 s", "1.5 ms", "250 ns": the largest of s, ms, us, ns that needs at most three decimals.
void append_duration(std::string& out, Nanos value);

// Length of the well-formed UTF-8 sequence that begins at text[at]; 0 where there is none.
// Requires:    at < text.size().
std::size_t utf8_length(std::string_view text, std::size_t at) noexcept;

// A JSON string with its quotes. Any bytes are accepted: what is not well-formed UTF-8 becomes
// \ufffd, one a byte; control characters are escaped.
void append_json_string(std::string& out, std::string_view text);

}  // namespace weir::render
