#pragma once

#include <cstdint>
#include <string>

#include "weir/clock.h"

namespace weir::ledger {

// What a process wants to know again after its next start: kept in the journal beside the events,
// in the same transaction, and never told to the ledger.
struct Note {
  enum class Do : std::uint8_t {
    put,     // instead of what stands under `id`
    add,     // `units`, to what stands under `id`
    remove,  // what stands under `id`
  };
  std::string id;  // its first byte says whose it is
  Instant at{};    // notes that ended before are forgotten by the way
  Instant until{};
  std::int64_t units = 0;
  std::string body;
  Do what = Do::put;
};

// Most notes of a journal. Beyond them those go first that end first.
inline constexpr std::uint64_t kMostNotes = 1'000'000;

}  // namespace weir::ledger
