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
  // Put, it stands from now on: it ends when another one takes its place or it is removed, never by
  // itself, and has to find room.
  bool stands = false;
};

// `until` of those that stand.
inline constexpr Instant kStands = Instant::max();

// Most notes of a journal, and what they take of it, about, but for those that stand. Beyond either
// those go first that end first.
inline constexpr std::uint64_t kMostNotes = 1'000'000;
inline constexpr std::uint64_t kMostNoteBytes = std::uint64_t{128} << 20;

// What a note takes of the journal: its row, and its place in the index of their ends.
inline std::uint64_t bytes_of(const Note& note) {
  return 2 * note.id.size() + note.body.size() + 32;
}

}  // namespace weir::ledger
