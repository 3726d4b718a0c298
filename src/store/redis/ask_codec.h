#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/redis/ask.h"
#include "store/redis/physical_key.h"
#include "store/redis/reply_reader.h"

namespace weir::store::redis {

// How an ask is put to the script: see scripts/ask.lua.
enum class AskForm : std::uint8_t {
  brief,  // one gcra counter that takes, and nothing else
  plain,  // takes of gcra and fixed windows
  full,
  envoyproxy,  // counters that are kept so: see scripts/envoyproxy.lua
};

// The times that an ask is put in.
struct AskTimes {
  Instant not_after{};  // the store writes nothing once its clock is past it
  Instant estimate{};   // the earliest that the store's clock can show now: its windows are sent
};

// Appends the command: EVALSHA, or EVAL with the script's text. Says in which form, for the reply
// depends on it.
//
// Requires:    counters.size() in [1, kMaxCounters]; no two counters of one digest; all are kept
//              alike, and those of envoyproxy's bring neither owed units nor a known state.
AskForm append_ask(std::span<const Counter> counters, const AskOptions& options,
                   const AskTimes& times, const KeySpace& keys, bool with_text, std::string& out);

enum class AskOutcome : std::uint8_t {
  decided,
  late,       // the store's clock was past not-after; nothing was written
  astray,     // it was outside the windows that were sent; nothing was written
  malformed,  // not a reply that this ask can have
};

struct DecodedAsk {
  AskOutcome outcome = AskOutcome::malformed;
  bool allowed = false;
  bool disagreed = false;
  bool told_time = false;  // whether `store_now` came from the store
  Instant store_now{};
};

// Reads the reply and works out, by the same arithmetic as every other store, what it means for
// each counter. `fallback` is the time to count from where the store did not tell one.
//
// Requires:    `reply` is not an error; only numbers, cost, op and receipt of the counters are
//              looked at, and the time of the options.
DecodedAsk decode_ask(const Reply& reply, AskForm form, std::span<const Counter> counters,
                      const AskOptions& options, const AskTimes& times, Instant fallback,
                      std::vector<CounterReply>& replies);

}  // namespace weir::store::redis
