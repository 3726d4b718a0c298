#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/redis/physical_key.h"
#include "store/redis/reply_reader.h"
#include "weir/clock.h"

namespace weir::store::redis {

// What a worker announces about itself: see scripts/beat.lua.
struct Beat {
  enum class Kind : std::uint8_t {
    first,  // of this process: it takes over what stands under its name
    again,
    leave,  // it has stopped deciding, and its part is free
  };
  static constexpr std::size_t kMaxName = 128;

  Kind kind = Kind::first;
  std::string name;               // printable ASCII without spaces, 1 to kMaxName bytes
  std::uint64_t incarnation = 0;  // of this process: drawn at random
  std::uint64_t seen_epoch = 0;   // the latest it has read
  Nanos lease{0};                 // from the store's now on; whole milliseconds count
};

struct FleetMember {
  std::string name;
  std::uint64_t incarnation = 0;
  std::uint64_t joined_epoch = 0;
  std::uint64_t seen_epoch = 0;
  Instant lease_until{};
};

// The membership as it stood right after a beat.
struct FleetReply {
  enum class Outcome : std::uint8_t {
    announced,
    ousted,  // another process announces itself by this name; nothing was written
    full,    // kMaxMembers others are there already; nothing was written
    left,
  };
  Outcome outcome = Outcome::announced;
  bool repaired = false;      // something else stood at the key, and was thrown away
  Instant now{};              // the store's clock
  std::uint64_t history = 0;  // another one: the store has lost what it knew of the fleet
  std::uint64_t epoch = 0;
  std::vector<FleetMember> members;
};

inline constexpr std::size_t kMaxMembers = 1'024;
// How long a member that has gone silent counts after its lease.
inline constexpr Nanos kMemberSilence = std::chrono::minutes(10);
// No lease is longer: what stands at the key cannot count for ever.
inline constexpr Nanos kLongestLease = std::chrono::minutes(2);
// How long the membership outlives its latest beat.
inline constexpr Nanos kMembershipExpiry = std::chrono::hours(24);

// Appends the command: EVALSHA, or EVAL with the script's text.
void append_beat(const Beat& beat, std::string_view key, bool with_text, std::string& out);

// False: not a reply of the beat's script.
bool read_beat(const Reply& reply, FleetReply& fleet);

}  // namespace weir::store::redis
