#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "weir/clock.h"
#include "weir/decision.h"

namespace weir::guard {

// One key and value of a request, in the words of Envoy's rate limit service. Any bytes.
struct DescriptorEntry {
  std::string_view key;
  std::string_view value;
};

// The unit of a limit, by its number in Envoy's protocol.
enum class LimitUnit : std::uint8_t {
  unknown = 0,  // not one of the others
  second = 1,
  minute = 2,
  hour = 3,
  day = 4,
  month = 5,
  year = 6,
  week = 7,
};

// A limit that the request itself brings along; holds instead of the configured one.
struct LimitOverride {
  std::uint32_t requests_per_unit = 0;
  LimitUnit unit = LimitUnit::unknown;
};

struct AskedDescriptor {
  std::span<const DescriptorEntry> entries;
  std::optional<LimitOverride> limit;
  // Units of this descriptor; 0 is a probe. Absent: those of the request.
  std::optional<std::uint64_t> hits;
};

// Most descriptors and entries of one ask. Doors refuse more before they make anything of them: a
// few bytes on the wire become a few hundred in memory.
inline constexpr std::size_t kMaxAskParts = 32'768;

// What a proxy asks: may this request pass every limit that its descriptors meet?
struct RateLimitAsk {
  std::string_view domain;
  std::span<const AskedDescriptor> descriptors;
  std::uint64_t hits = 1;
  std::optional<Nanos> deadline;  // the proxy's patience from now on
  // Names the request, as CheckOptions::idempotency_key does; empty: it has no name. Says something
  // on routes that meter; at most kMaxIdempotencyKeyBytes.
  std::string_view idempotency_key{};
};

// What one descriptor met.
struct DescriptorStatus {
  bool over = false;
  // The limit that holds; absent where none does, or where its numbers are not known.
  struct Limit {
    std::uint64_t requests_per_unit = 0;
    LimitUnit unit = LimitUnit::unknown;
    std::string_view name;
  };
  std::optional<Limit> limit;
  std::uint64_t remaining = 0;
  std::optional<Nanos> until_reset;

  // The same in whole seconds, rounded up, at least 1: proxies cut off what is below a second.
  std::optional<std::int64_t> reset_seconds() const noexcept;
};

// Views in it hold as long as the Guard.
struct RateLimitAnswer {
  // Verdict, rung, reason, retry_after and the rules for headers.
  Decision decision;
  // One for each descriptor asked about, in their order; empty where the ask was refused unread.
  std::vector<DescriptorStatus> statuses;
  // JSON objects that the policy keeps beside the limits that were passed, in the order of the
  // descriptors: what the proxy is told as metadata.
  std::vector<std::string_view> metadata;
  // A refusal is to be a gRPC error UNAVAILABLE: the policy says so (`rls_refusal: unavailable`).
  bool refuse_as_error = false;

  // Makes it as new, keeping its room.
  void clear();
};

// Who hears of answers that come later.
class RateLimitListener {
 public:
  virtual ~RateLimitListener() = default;
  // Called once for each ticket that decide() left open, in any thread.
  virtual void answered(std::uint64_t ticket, RateLimitAnswer answer) = 0;
};

// Decides what a rate limit service is asked.
//
// Threads:     any number at once.
class RateLimiter {
 public:
  virtual ~RateLimiter() = default;
  // True: `answer` is filled in. False: `listener` will hear it under `ticket`; nothing that `ask`
  // points to is needed until then.
  virtual bool decide(const RateLimitAsk& ask, RateLimitAnswer& answer, RateLimitListener& listener,
                      std::uint64_t ticket) = 0;
  // What an ask is answered that was too large to be read: refused, as invalid_request.
  virtual void refuse_unread(RateLimitAnswer& answer) = 0;
};

}  // namespace weir::guard
