#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "weir/breaker.h"
#include "weir/clock.h"
#include "weir/concurrency.h"
#include "weir/decision.h"
#include "weir/limits.h"
#include "weir/observer.h"
#include "weir/policy.h"
#include "weir/result.h"
#include "weir/store.h"

namespace weir {

// One named value of a request. Names are the sources of the policy's `by:` ("ip",
// "header:X-API-Key") or its inputs.
struct Descriptor {
  std::string_view name;
  std::string_view value;  // any bytes
};

// A request as an HTTP door saw it; `match` finds its route and `trusted_proxies` its address.
struct HttpRequest {
  std::string_view method;
  std::string_view target;              // path and query, as received
  std::string_view peer;                // address of the peer, with or without port
  std::span<const Descriptor> headers;  // names in any case; repeated ones in order
};

struct CheckOptions {
  std::uint64_t cost = 1;           // 0: a probe, charges nothing
  std::optional<Nanos> deadline{};  // the caller's patience; the store's own deadline holds besides
  // Names the request among those of its tenant on a metered route, so that it is charged once
  // however often it comes: the same request again is allowed as it was (Decision::replayed), and
  // another one under its name is refused (Reason::key_reused). At most kMaxIdempotencyKeyBytes;
  // empty: it has no name. Looked at before the call returns.
  std::string_view idempotency_key{};
};

// Whether a Guard on a shared store takes part in the fleet.
enum class FleetRole : std::uint8_t {
  worker,  // it announces itself, and has a part of the limits while the store is away
  guest,   // it asks and goes, as a one-shot command does: nobody's part shrinks for it
};

struct GuardOptions {
  Clock* clock = nullptr;          // absent: the machine's
  Observer* observer = nullptr;    // outlives the Guard
  std::unique_ptr<Store> store{};  // absent: the store that the policy names
  FleetRole role = FleetRole::worker;
};

struct AcquireOptions {
  std::uint32_t weight = 1;
  Nanos patience{0};  // how long to wait in turn for units that others hold
};

// Bounds on what one call may bring; more is refused as invalid_request.
inline constexpr std::size_t kMaxDescriptors = 64;
inline constexpr std::size_t kMaxValueBytes = 1 << 20;
inline constexpr std::size_t kMaxIdempotencyKeyBytes = 255;

// Decides. One Guard serves a whole process.
//
// Threads:     every member may be called from any thread.
// Cost:        on the memory store, check() neither allocates nor makes a system call but for the
//              clock.
class Guard {
 public:
  // Errors:      what the policy's store needs and can be known without the network;
  //              failed_precondition where this build or release cannot do what the policy asks.
  static Result<Guard> open(Policy policy, GuardOptions options = {});

  Guard(Guard&&) noexcept;
  Guard& operator=(Guard&&) noexcept;
  ~Guard();

  // Decides now.
  Decision check(std::string_view route, std::span<const Descriptor> descriptors,
                 CheckOptions options = {});
  Decision check(std::string_view route, std::initializer_list<Descriptor> descriptors,
                 CheckOptions options = {}) {
    return check(route, std::span(descriptors.begin(), descriptors.size()), options);
  }
  // As check(); `done` is called exactly once, in any thread, perhaps before this returns. On a
  // shared store that may be the thread that speaks to the store: `done` must not block. It may ask
  // again by check_async(); a check() in it is decided without the store.
  void check_async(std::string_view route, std::span<const Descriptor> descriptors,
                   CheckOptions options, std::function<void(Decision)> done);
  void check_async(std::string_view route, std::initializer_list<Descriptor> descriptors,
                   CheckOptions options, std::function<void(Decision)> done) {
    check_async(route, std::span(descriptors.begin(), descriptors.size()), options,
                std::move(done));
  }
  // Finds the route by `match`, then decides.
  Decision check_request(const HttpRequest& request, CheckOptions options = {});
  // As check_request(), answered as check_async() is.
  void check_request_async(const HttpRequest& request, CheckOptions options,
                           std::function<void(Decision)> done);

  // Decides, and where the answer is limited waits until the cost fits, at most `patience`.
  // Returns at once when it never can fit, or when the wait would outlast the patience.
  Decision wait(std::string_view route, std::span<const Descriptor> descriptors, Nanos patience,
                CheckOptions options = {});
  Decision wait(std::string_view route, std::initializer_list<Descriptor> descriptors,
                Nanos patience, CheckOptions options = {}) {
    return wait(route, std::span(descriptors.begin(), descriptors.size()), patience, options);
  }

  // What a check would answer, charging nothing.
  Decision peek(std::string_view route, std::span<const Descriptor> descriptors);
  Decision peek(std::string_view route, std::initializer_list<Descriptor> descriptors) {
    return peek(route, std::span(descriptors.begin(), descriptors.size()));
  }
  // Gives back what `decision` charged. Only an allowed decision of this process's lifetime has
  // something to give back; what its windows have already forgotten stays forgotten. Refund one
  // decision once: a copy is not told apart.
  //
  // Errors:      unavailable: the store cannot be asked, and nothing was given back; or it did not
  //              answer in time, and may have given it back all the same: the message says which.
  Result<void> refund(const Decision& decision);
  // Forgets the counters of these values.
  Result<void> reset(std::string_view route, std::span<const Descriptor> descriptors);
  Result<void> reset(std::string_view route, std::initializer_list<Descriptor> descriptors) {
    return reset(route, std::span(descriptors.begin(), descriptors.size()));
  }

  // The breaker of that name in the policy's `breakers:`. The handle stays good across reloads; one
  // whose window a reload changes is another breaker from then on.
  // Requires:    the Guard's clock and observer outlive the handle.
  // Errors:      not_found.
  Result<Breaker> breaker(std::string_view name) const;
  // Takes units of a limit in the policy's `concurrency:`, of the counter that its `by` makes of
  // these values; a value that is missing counts as "absent". The Slot gives them back, or says why
  // there were none. Of a limit that the fleet shares it holds a lease, which this process renews;
  // who waits for one stands in order with others of this process, and with nobody elsewhere.
  // Errors:      not_found: no limit of that name; invalid_argument: a value that it does not count
  //              by.
  Result<Slot> acquire(std::string_view name, std::span<const Descriptor> descriptors,
                       AcquireOptions options = {});
  Result<Slot> acquire(std::string_view name, std::initializer_list<Descriptor> descriptors,
                       AcquireOptions options = {}) {
    return acquire(name, std::span(descriptors.begin(), descriptors.size()), options);
  }
  // The same as leases, for holders outside this process; see Concurrency. Of a limit that the
  // fleet shares they stand in the store; while that does not answer, this worker gives out its
  // part of the limit, and tells the store afterwards.
  Result<LeaseAnswer> lease(std::string_view name, std::span<const Descriptor> descriptors,
                            const LeaseRequest& request);
  Result<LeaseAnswer> renew_lease(std::string_view name, std::span<const Descriptor> descriptors,
                                  std::string_view id);
  // False: no such lease stands.
  // Errors:      as lease(); unavailable: shared, the store does not answer, and this worker does
  //              not know the lease.
  Result<bool> release_lease(std::string_view name, std::span<const Descriptor> descriptors,
                             std::string_view id);
  // The same for those who must not wait: `done` is called exactly once, perhaps before this
  // returns, perhaps in the thread that speaks to the store.
  void lease_async(std::string_view name, std::span<const Descriptor> descriptors,
                   const LeaseRequest& request, std::function<void(Result<LeaseAnswer>)> done);
  void renew_lease_async(std::string_view name, std::span<const Descriptor> descriptors,
                         std::string_view id, std::function<void(Result<LeaseAnswer>)> done);
  void release_lease_async(std::string_view name, std::span<const Descriptor> descriptors,
                           std::string_view id, std::function<void(Result<bool>)> done);

  // Replaces the policy. Unchanged rules keep their counters; where numbers changed, used stays
  // used.
  //
  // Errors:      failed_precondition where the new policy changes its store or its journal.
  Result<void> reload(Policy policy);
  Policy policy() const;
  // Counts the policies loaded so far, from 1.
  std::uint64_t generation() const noexcept;

  class Impl;
  Impl& impl() noexcept { return *impl_; }

 private:
  explicit Guard(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir
