#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/breaker_config.h"
#include "weir/clock.h"
#include "weir/result.h"

namespace weir {

// How many may be at it at once. check_concurrency_config() says what is allowed.
struct ConcurrencyConfig {
  std::uint32_t limit = 0;  // units held at once; 1 to 1,000,000
  // A lease that is not renewed for so long is over, and its units are free; 100 ms to 1 h.
  Nanos lease{std::chrono::seconds(30)};
  // And whatever is renewed, after so long; at least `lease`, at most 24 h.
  Nanos max_hold{std::chrono::minutes(10)};
  std::uint32_t max_waiting = 1'000;  // callers that wait at once; 0 to 100,000

  friend bool operator==(const ConcurrencyConfig&, const ConcurrencyConfig&) = default;
};

std::vector<ConfigFault> check_concurrency_config(const ConcurrencyConfig& config);

// Why units were not given.
enum class LeaseRefusal : std::uint8_t {
  none,
  full,            // others hold them
  never_fits,      // a weight of 0, or above the limit: waiting is useless
  queue_full,      // max_waiting callers wait already
  timed_out,       // the caller's patience is over
  gone,            // no such lease: released, expired, or never given
  held_otherwise,  // this id holds a lease of another weight
  invalid_id,      // not 16 to 64 letters, digits, - or _
  too_many_keys,   // a keyed limit has as many keys in use as it may
  store_away,      // shared: the store does not answer, and nobody here can say
};

std::string_view to_string(LeaseRefusal refusal);

// A lease, as its holder sees it.
struct Lease {
  std::string id;  // names it for renew and release: whoever knows it may do both
  std::uint64_t fence =
      0;  // larger than that of every lease given before, also by the process before
  std::uint32_t weight = 1;
  Nanos expires_in{0};         // unless it is renewed
  Nanos held_for{0};           // until now; at max_hold it ends whatever is renewed
  bool repeated = false;       // this id held it already: nothing was taken
  bool without_store = false;  // shared: of this worker's part, while the store does not answer
};

struct [[nodiscard]] LeaseAnswer {
  std::optional<Lease> lease;
  LeaseRefusal refusal = LeaseRefusal::none;
  std::optional<Nanos> retry_after{};  // full: when the next lease expires, a hint

  explicit operator bool() const noexcept { return lease.has_value(); }
};

struct LeaseRequest {
  // The caller's own, 16 to 64 letters, digits, - or _: asking again with it takes nothing twice.
  // It should be random. Absent: 128 random bits are made.
  std::optional<std::string_view> id{};
  std::uint32_t weight = 1;
};

struct ConcurrencySnapshot {
  std::string name;
  std::uint32_t limit = 0;
  std::uint64_t held = 0;  // units, by slots and leases
  std::uint64_t leases = 0;
  std::uint64_t waiting = 0;
  std::uint64_t leases_given = 0;
  std::uint64_t leases_expired = 0;
  std::uint64_t refused = 0;
  std::uint64_t absent_values = 0;  // of a policy's: asks that lacked a value it counts by

  // Shared: the numbers above are of the leases that this worker gave.
  bool shared = false;
  bool store_answers = true;
  std::uint64_t given_without_store = 0;
  std::uint64_t untold = 0;  // leases that changed without the store, and are still to be told it
};

namespace detail {

struct SlotMaker;

struct alignas(64) ConcurrencyGate {
  static constexpr std::uint64_t kWaiting = std::uint64_t{1} << 63;  // somebody waits in the queue

  std::atomic<std::uint64_t> word{0};  // kWaiting | units held
  std::atomic<std::uint32_t> limit{0};

  // Takes units, where they are free and nobody is before us.
  bool take(std::uint32_t weight) noexcept {
    std::uint64_t held = word.load(std::memory_order_relaxed);
    do {
      // With the queue's bit set this exceeds every limit.
      if (held + weight > limit.load(std::memory_order_relaxed)) return false;
    } while (!word.compare_exchange_weak(held, held + weight, std::memory_order_acquire,
                                         std::memory_order_relaxed));
    return true;
  }
};

}  // namespace detail

class ConcurrencyCore;

// Units held by this process, given back when it goes out of scope; or the reason why not.
//
// Requires:    the Concurrency it came from, or a copy, outlives it.
// Threads:     one at a time; may be released in another thread than it was taken in.
class [[nodiscard]] Slot {
 public:
  Slot() noexcept = default;
  Slot(Slot&& other) noexcept
      : gate_(std::exchange(other.gate_, nullptr)),
        weight_(other.weight_),
        refusal_(other.refusal_),
        keep_(std::move(other.keep_)) {}
  Slot& operator=(Slot&& other) noexcept {
    if (this != &other) {
      release();
      gate_ = std::exchange(other.gate_, nullptr);
      weight_ = other.weight_;
      refusal_ = other.refusal_;
      keep_ = std::move(other.keep_);
    }
    return *this;
  }
  ~Slot() { release(); }

  explicit operator bool() const noexcept { return gate_ != nullptr; }
  LeaseRefusal refusal() const noexcept { return refusal_; }
  std::uint32_t weight() const noexcept { return gate_ != nullptr ? weight_ : 0; }
  // Whether its units are still its own. Of a limit that a fleet shares a lease can end while the
  // slot is held, at max_hold, or where it could not be renewed: work that goes on is work above
  // the limit.
  bool stands() const noexcept {
    return gate_ != nullptr && gate_->word.load(std::memory_order_acquire) != 0;
  }

  void release() noexcept {
    if (gate_ == nullptr) return;
    const std::uint64_t before = gate_->word.fetch_sub(weight_, std::memory_order_release);
    if ((before & detail::ConcurrencyGate::kWaiting) != 0) hand_on();
    gate_ = nullptr;
    keep_.reset();
  }

 private:
  friend class Concurrency;
  friend class KeyedConcurrency;
  friend struct detail::SlotMaker;
  Slot(detail::ConcurrencyGate* gate, std::uint32_t weight) noexcept
      : gate_(gate), weight_(weight) {}
  explicit Slot(LeaseRefusal refusal) noexcept : refusal_(refusal) {}
  void hand_on() noexcept;

  detail::ConcurrencyGate* gate_ = nullptr;
  std::uint32_t weight_ = 0;
  LeaseRefusal refusal_ = LeaseRefusal::none;
  std::shared_ptr<void> keep_{};  // of a keyed limit, or of the lease behind a shared one
};

// A limit on how much is under way at once. A handle: copies are the same limit.
//
// Guarantees:  slots and leases that stand never hold more than the limit together; a limit that
//              was lowered is reached as units come back, and nothing waits for that. A lease
//              stands until it is released, its time is over, or max_hold is: a holder that died
//              gives its units back within `lease`. A lease that is over cannot be renewed, and
//              releasing it frees nobody else's. Callers that wait are served in order.
// Time:        leases live by the clock that was passed in, and are swept by the next call that
//              needs units; a caller that waits, waits in real time.
// Threads:     any.
// Cost:        try_acquire() with free units and its release: two locked instructions, no
//              allocation.
class Concurrency {
 public:
  // `clock` absent: the machine's; it outlives the limit.
  // Errors:      invalid_argument: each fault of the configuration, one a line.
  static Result<Concurrency> make(std::string name, const ConcurrencyConfig& config,
                                  Clock* clock = nullptr);

  Slot try_acquire(std::uint32_t weight = 1) noexcept {
    if (weight != 0 && gate_->take(weight)) [[likely]]
      return Slot(gate_, weight);
    return acquire_slow(weight);
  }
  // Waits in turn for at most `patience`.
  Slot acquire(std::uint32_t weight, Nanos patience);

  // For holders outside this process. Asking again with the id of a lease that stands gives that
  // lease as it is.
  LeaseAnswer lease(const LeaseRequest& request);
  // Makes it last `lease` from now on, at most until max_hold.
  // Refusals:    gone.
  LeaseAnswer renew(std::string_view id);
  // False: no such lease stands, and nothing changed.
  bool release(std::string_view id);

  // Takes other numbers over. Leases that stand keep the times they were given.
  // Errors:      invalid_argument: a fault of the configuration.
  Result<void> configure(const ConcurrencyConfig& config);
  ConcurrencyConfig config() const;
  std::string_view name() const noexcept;
  ConcurrencySnapshot snapshot() const;

 private:
  friend class KeyedConcurrency;
  explicit Concurrency(std::shared_ptr<ConcurrencyCore> core) noexcept;
  Slot acquire_slow(std::uint32_t weight) noexcept;

  detail::ConcurrencyGate* gate_;
  std::shared_ptr<ConcurrencyCore> core_;
};

// One limit for each key: an account, a tenant. Keys that hold nothing cost nothing.
//
// Guarantees:  as Concurrency, for each key. At most `most_keys` keys are in use at once; more are
//              refused as too_many_keys, never let through.
// Threads:     any.
class KeyedConcurrency {
 public:
  static constexpr std::size_t kMostKeys = 100'000;

  // Errors:      invalid_argument: each fault of the configuration, one a line.
  static Result<KeyedConcurrency> make(std::string name, const ConcurrencyConfig& config,
                                       Clock* clock = nullptr, std::size_t most_keys = kMostKeys);
  KeyedConcurrency(KeyedConcurrency&&) noexcept;
  KeyedConcurrency& operator=(KeyedConcurrency&&) noexcept;
  ~KeyedConcurrency();

  Slot try_acquire(std::string_view key, std::uint32_t weight = 1);
  Slot acquire(std::string_view key, std::uint32_t weight, Nanos patience);
  LeaseAnswer lease(std::string_view key, const LeaseRequest& request);
  LeaseAnswer renew(std::string_view key, std::string_view id);
  bool release(std::string_view key, std::string_view id);

  Result<void> configure(const ConcurrencyConfig& config);
  ConcurrencyConfig config() const;
  // Sums over the keys; `limit` is that of each.
  ConcurrencySnapshot snapshot() const;
  std::size_t keys() const;

 private:
  struct Keys;
  explicit KeyedConcurrency(std::unique_ptr<Keys> keys) noexcept;
  std::unique_ptr<Keys> keys_;
};

}  // namespace weir
