#pragma once

#include <string>
#include <utility>
#include <vector>

#include "weir/decision.h"

namespace weir::render {

// The header lines of a decision, each "Name: value\r\n", each name once:
//   draft10  RateLimit-Policy: every rule that can deny; RateLimit: the rule described below
//   delta    RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset (seconds from now)
//   epoch    X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset (seconds since 1970)
// and, in any profile, Retry-After, Weir-Rung, and Cache-Control: no-store on a denial.
//
// The numbers are those of one rule: on a denial the denying rule with the longest wait, otherwise
// the one with the fewest units left (of equals, the one that takes longest to reset). Shadow rules
// are never described. Reset is, on a denial, when that rule has room for this cost; otherwise,
// when all of it is available again: so no header tells a client to come earlier or later than
// Retry-After does.
//
// Units:       whole seconds, rounded up.
// Guarantees:  what is not known is left out; no number is negative. Retry-After is at least 1 and,
//              on limited, true: a client that waits that long fits if nobody else asks. It is left
//              out where waiting never helps. On refused it is a hint with jitter, worked out from
//              decided_at, so that one decision always renders alike. A rule's name in a structured
//              field is an RFC 9651 String: bytes outside printable ASCII, and '%', are
//              percent-encoded.
void append_headers(std::string& out, const Decision& decision);

// What a rate limit service hands to its proxy for the client: the lines above and, on a refusal,
// Weir-Reason. Nothing for a plain yes without profiles.
void append_proxy_headers(std::string& out, const Decision& decision);

// As append_headers(), as pairs: for callers who put them into a response of their own.
std::vector<std::pair<std::string, std::string>> http_headers(const Decision& decision);

// The rule that the headers of `decision` describe; nullptr where no rule that can deny applied.
const RuleReport* described_rule(const Decision& decision) noexcept;

// Value of Retry-After in seconds; absent where the header is left out.
std::optional<std::uint64_t> retry_after_seconds(const Decision& decision) noexcept;

}  // namespace weir::render
