#pragma once

#include <cstdint>
#include <optional>

#include "weir/clock.h"

namespace weir::drill {

// What a FaultProxy does to what passes through it. All at once where several are given; the
// default does nothing.
//
// Units:       delays for each piece of bytes as it was read; with one ask in flight a piece is one
//              request or one reply.
struct ProxyFaults {
  // What becomes of connections that are made from now on.
  enum class Door : std::uint8_t {
    open,
    refuse,  // nothing listens
    silent,  // accepted, and never answered nor passed on
  };
  // What becomes of bytes, each way by itself.
  enum class Flow : std::uint8_t {
    pass,
    stall,  // kept, and sent on once they may pass again
    drop,   // lost; a connection that has lost bytes loses all that follow, for what came after a
            // hole would be taken for something else
  };
  // Where a connection is cut off when its next reply comes. The command has run by then.
  enum class Cut : std::uint8_t { never, before_reply, inside_reply, after_reply };

  Door door = Door::open;
  Flow requests = Flow::pass;
  Flow replies = Flow::pass;
  Nanos request_delay{0};
  Nanos reply_delay{0};
  Nanos jitter{0};                          // up to so much more, each way; order is kept
  Nanos between_bytes{0};                   // not 0: replies come one byte at a time, so far apart
  std::optional<std::uint64_t> reply_rate;  // bytes of replies a second, of each connection
  Cut cut = Cut::never;
  std::uint32_t percent = 100;  // of the pieces that could be dropped or cut, so many are

  // Packets are lost in both directions, without a word.
  static ProxyFaults blackhole() {
    return {.door = Door::silent, .requests = Flow::drop, .replies = Flow::drop};
  }
  // Nothing listens any more; connections that stand are to be reset besides.
  static ProxyFaults refuse() { return {.door = Door::refuse}; }
  // Commands run; nobody hears what came of them.
  static ProxyFaults deaf() { return {.replies = Flow::drop}; }
  static ProxyFaults stall() { return {.requests = Flow::stall, .replies = Flow::stall}; }
  static ProxyFaults slow(Nanos reply_delay, Nanos jitter = Nanos{0}) {
    return {.reply_delay = reply_delay, .jitter = jitter};
  }

  bool operator==(const ProxyFaults&) const = default;
};

}  // namespace weir::drill
