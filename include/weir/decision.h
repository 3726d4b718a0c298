#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "weir/clock.h"
#include "weir/limits.h"

namespace weir {

// The answer to a request. The three are never mixed up.
enum class Verdict : std::uint8_t {
  allowed,  // go ahead
  limited,  // over the limit; in an outage, over this worker's part: the rung says which
  refused,  // could not be checked, and the policy says no
};

// Who decided.
enum class Rung : std::uint8_t {
  store,     // the store, exactly
  known,     // a denial the store told us that still holds
  share,     // this worker's part of the limit, while the store is away
  policy,    // the route's failure policy or ceiling
  journal,   // served now, recorded durably, settled later
  fallback,  // the second store that the policy names, while the first cannot be asked
};

// Why. One word a case, stable: it goes into JSON, headers and metadata as to_string() spells it.
enum class Reason : std::uint8_t {
  within_limit,
  over_limit,          // waiting helps
  cost_exceeds_burst,  // waiting never helps: the cost can never fit
  blocked,             // the limit is 0
  no_limit,            // nothing applied: unmatched, exempt, or without rules
  store_unavailable,   // nobody could count; the policy decided
  over_share,          // over this worker's part
  over_ceiling,        // over the route's ceiling in this process
  unknown_route,       // no such route, and no default; refused
  unmatched_request,   // no route matches, and the policy says refuse
  missing_value,       // a strict rule lacks a value; refused
  invalid_request,     // outside the stated bounds; refused
  keys_exhausted,      // the table of counters is full of live ones; refused
  key_reused,          // the idempotency key was used before, for another request; refused
};

std::string_view to_string(Verdict verdict);
std::string_view to_string(Rung rung);
std::string_view to_string(Reason reason);

// Which counter was charged, and the receipt: what a refund needs. Opaque to callers.
struct Charge {
  std::uint64_t key_hi = 0;
  std::uint64_t key_lo = 0;
  std::uint64_t identity = 0;
  std::uint32_t stamp = 0;  // of the numbers it was charged under
  std::uint64_t units = 0;  // 0: nothing was charged
  Instant receipt{};        // limit::Step::receipt() of the step that charged
};

// What one rule said. Numbers that are not known are absent, never zero.
// `rule` is valid as long as the Guard that decided.
struct RuleReport {
  std::string_view rule;
  std::uint64_t limit = 0;
  // Of calendar months and years the length of the one that it was decided in, and zero where
  // nothing was counted: then there was none.
  Nanos period{0};
  std::uint64_t burst = 0;  // most units at once; equals limit for windows
  bool fits = true;         // this rule alone would have let the request through
  bool never_fits = false;  // the cost exceeds what this rule can ever admit
  bool shadow = false;      // counted, but does not decide
  std::optional<std::uint64_t> remaining;
  std::optional<Nanos>
      reset_after;  // until all that is used is available again, if nothing more is asked
  std::optional<Nanos>
      retry_after;  // until this cost fits, if nobody else asks; absent when it fits or never can
  Charge charge;
};

// The header families a policy may ask for, as a bit set in Decision::profiles.
enum HeaderProfile : std::uint8_t {
  kHeadersDraft10 = 1,  // RateLimit, RateLimit-Policy: draft-ietf-httpapi-ratelimit-headers-10
  kHeadersDelta = 2,    // RateLimit-Limit, -Remaining, -Reset: seconds from now
  kHeadersEpoch = 4,    // X-RateLimit-Limit, -Remaining, -Reset: seconds since 1970
};

// One answer, with its reasons. A value: copy, keep, hand to Guard::refund.
//
// Guarantees:  for up to kInlineRules rules neither building, copying nor moving one allocates.
// Threads:     as a plain value.
class [[nodiscard]] Decision {
 public:
  static constexpr std::size_t kInlineRules = 4;

  Verdict verdict = Verdict::refused;
  Rung rung = Rung::policy;
  Reason reason = Reason::invalid_request;
  std::uint8_t profiles = 0;  // HeaderProfile bits of the policy
  // Allowed, because this request was before, under its idempotency key: nothing was charged now.
  bool replayed = false;
  std::string_view route;  // valid as long as the Guard
  // Of a request that was wrong, what was. missing_value: the source it gives no value for ("ip"),
  // of the rule that rules() then holds. invalid_request: a sentence. Else empty. Valid as long as
  // the Guard.
  std::string_view fault;
  std::uint64_t cost = 1;
  std::optional<Nanos>
      retry_after;  // limited: true, to the nanosecond; refused: a hint; absent: waiting is useless
  Instant decided_at{};  // the store's time of the decision

  // A shared store's names of what was charged, for Guard::refund; opaque. Empty on the embedded
  // store.
  std::string receipt_keys;

  Decision() noexcept {}
  Decision(const Decision& other) { *this = other; }
  Decision(Decision&& other) noexcept { *this = std::move(other); }
  Decision& operator=(const Decision& other);
  Decision& operator=(Decision&& other) noexcept;
  ~Decision() = default;

  bool allowed() const noexcept { return verdict == Verdict::allowed; }

  // The rules that applied, in the policy's order; a rule the caller is exempt from is left out.
  std::span<const RuleReport> rules() const noexcept;
  std::span<RuleReport> rules() noexcept;
  // Appends a report and returns it. Invalidates spans of rules().
  RuleReport& add(const RuleReport& report);

  // 200; 429 limited; 503 refused; 404 unknown route; 400 invalid request or missing value; 409 a
  // key that was used for another request.
  int http_status() const noexcept;
  // The response's header lines in the policy's profiles, Retry-After and Weir-Rung included.
  std::vector<std::pair<std::string, std::string>> http_headers() const;
  // The decision as one JSON object: the same from the library, the command line and HTTP.
  std::string json() const;

 private:
  void copy_scalars(const Decision& other) noexcept;

  std::size_t count_ = 0;
  alignas(RuleReport) std::byte inline_[kInlineRules * sizeof(RuleReport)];
  std::vector<RuleReport> spilled_;  // all reports, once they outgrow inline_
};

static_assert(std::is_trivially_copyable_v<RuleReport>);

}  // namespace weir
