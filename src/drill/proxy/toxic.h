#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "drill/proxy/way_faults.h"

namespace weir::drill {

// One fault with a name, as Toxiproxy's users know them: of one way, for some of the connections.
// The first seven kinds are theirs and mean what they mean there.
struct Toxic {
  enum class Kind : std::uint8_t {
    latency,
    bandwidth,
    slow_close,
    timeout,
    reset_peer,
    slicer,
    limit_data,
    blackhole,  // packets are lost both ways, and who connects is not answered
    refuse,     // nothing listens; what stands stays
    drop,       // bytes of this way are lost, without a word
    stall,      // bytes of this way are held, and flushed when it is taken away
    drip,       // bytes of this way come one at a time
    truncate,   // the connection is cut off in the middle of a piece
  };
  // From the client to the server, or back.
  enum class Stream : std::uint8_t { upstream, downstream };
  static constexpr std::uint32_t kAlways = 1'000'000;
  static constexpr std::size_t kMostAttributes = 3;

  std::string name;
  Kind kind = Kind::latency;
  Stream stream = Stream::downstream;
  std::uint32_t toxicity = kAlways;  // of a million connections, so many are struck
  std::array<std::int64_t, kMostAttributes> values{};  // as the kind's attributes stand
  std::uint64_t id = 0;  // another after each change: connections are drawn anew

  bool operator==(const Toxic&) const = default;
};

// What a kind can be told.
struct ToxicForm {
  struct Attribute {
    std::string_view name;
    std::int64_t usual = 0;
    std::int64_t least = 0;
    std::int64_t most = 0;
  };
  Toxic::Kind kind;
  std::string_view word;
  std::span<const Attribute> attributes;
};
std::span<const ToxicForm> toxic_forms();
const ToxicForm& form_of(Toxic::Kind kind);
const ToxicForm* form_named(std::string_view word);

std::string_view to_string(Toxic::Stream stream);

// A toxic of this kind with its usual values.
Toxic usual_toxic(Toxic::Kind kind);

// Adds what the toxic does to one way. Of two of a kind, delays add up and the narrower limit
// holds.
void add_toxic(const Toxic& toxic, bool replies, WayFaults& faults);

}  // namespace weir::drill
