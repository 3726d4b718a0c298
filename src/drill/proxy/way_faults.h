#pragma once

#include <cstdint>
#include <optional>

#include "drill/proxy/proxy_faults.h"

namespace weir::drill {

// What becomes of the bytes of one way of one connection: what the whole proxy was told, and the
// toxics that strike this connection.
struct WayFaults {
  // Bytes leave in pieces of about `average`, up to `variation` more or less, so far apart.
  struct Slices {
    std::uint64_t average = 1;
    std::uint64_t variation = 0;
    Nanos apart{0};
    bool operator==(const Slices&) const = default;
  };

  ProxyFaults::Flow flow = ProxyFaults::Flow::pass;
  ProxyFaults::Cut cut = ProxyFaults::Cut::never;
  std::uint32_t percent = 100;  // of the pieces that could be dropped or cut
  Nanos delay{0};
  Nanos jitter{0};         // up to so much more
  Nanos between_bytes{0};  // not 0: one byte at a time, so far apart
  Nanos close_delay{0};    // its sender's goodbye is told so much later
  std::optional<std::uint64_t> bytes_per_second;
  std::optional<std::uint64_t> most_bytes;  // after which the connection is closed
  std::optional<Slices> slices;
  // The connection ends so long after this began, politely or with a reset. A polite end also comes
  // when this is over, for bytes are missing by then.
  std::optional<Nanos> close_after;
  std::optional<Nanos> reset_after;
  bool closes_when_over = false;

  static WayFaults of(const ProxyFaults& faults, bool replies);

  bool operator==(const WayFaults&) const = default;
};

}  // namespace weir::drill
