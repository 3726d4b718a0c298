#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "guard/request_name.h"
#include "weir/clock.h"
#include "weir/decision.h"

namespace weir::guard {

// The requests that this process admitted under an idempotency key.
//
// Bounds:      kMost of them, for kIdempotencyMemory each; the oldest is forgotten first.
// Threads:     any.
class IdempotencyTable {
 public:
  static constexpr std::size_t kMost = 262'144;

  struct Known {
    bool same = false;        // the same request; else the key is another one's
    Rung rung = Rung::store;  // who admitted it
    bool recorded = true;  // false: a process before this one did, which may have ended before that
  };
  // Absent: nothing is known of the key.
  std::optional<Known> find(const RequestName& name, Instant now) const;
  // Known from now on; who waits for it hears.
  void keep(const RequestName& name, Rung rung, Instant at, bool recorded = true);

  // Of calls that come at once, who records the request.
  enum class Claim : std::uint8_t {
    mine,   // keep() or release() has to follow
    same,   // it is recorded, or somebody is about to: `told` hears
    other,  // the key is another request's
  };
  // Hears once, in any thread, perhaps at once: who admitted it; absent: it could not be recorded.
  using Told = std::function<void(std::optional<Rung>)>;
  Claim claim(const RequestName& name, Instant now, Told told);
  // What was claimed could not be recorded.
  void release(const RequestName& name);

 private:
  struct Hash {
    std::size_t operator()(const ValueDigester::Digest& digest) const noexcept {
      std::size_t hash = 0;
      std::memcpy(&hash, digest.data(), sizeof hash);
      return hash;
    }
  };
  struct Entry {
    ValueDigester::Digest asked{};
    Instant at{};
    Rung rung = Rung::store;
    bool recorded = true;
  };

  struct Claimed {
    ValueDigester::Digest asked{};
    std::vector<Told> waiting;
  };
  // Under the lock: ends a claim, and returns who waits for it.
  std::vector<Told> end_claim(const RequestName& name);

  mutable std::mutex mutex_;
  std::unordered_map<ValueDigester::Digest, Claimed, Hash> claimed_;
  std::unordered_map<ValueDigester::Digest, Entry, Hash> entries_;
  std::deque<ValueDigester::Digest> by_age_;
};

}  // namespace weir::guard
