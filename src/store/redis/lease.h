#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/redis/reply_reader.h"
#include "store/redis/store_call.h"
#include "weir/clock.h"
#include "weir/concurrency.h"

namespace weir::store::redis {

// One action on the leases of a concurrency limit that a fleet shares: see scripts/lease.lua.
struct LeaseAction {
  enum class Kind : std::uint8_t {
    acquire,
    renew,
    release,
    keep,  // given, or renewed, while the store did not answer
  };
  Kind kind = Kind::acquire;
  std::string id;
  std::uint32_t weight = 1;
  std::uint64_t fence = 0;  // keep
  Nanos held_for{0};        // keep
  Nanos left{0};            // keep
};

struct LeaseReply {
  enum class Outcome : std::uint8_t { done, stood, full, none, held_otherwise, above_limit };
  Outcome outcome = Outcome::done;
  Instant now{};            // the store's clock
  std::uint64_t held = 0;   // units, by all
  bool repaired = false;    // something else stood there
  std::uint64_t ended = 0;  // leases that were over, and are gone
  std::uint32_t weight = 0;
  std::uint64_t fence = 0;
  Nanos left{0};
  Nanos held_for{0};
  std::optional<Nanos> next_end;
};

// Requires: check_concurrency_config() finds nothing; `key` is the limit's counter.
StoreCall lease_call(const LeaseAction& action, const ConcurrencyConfig& config,
                     const std::string& key);
// False: not a reply of the script.
bool read_lease(const Reply& reply, LeaseReply& out);

}  // namespace weir::store::redis
