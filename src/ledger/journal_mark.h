#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "weir/result.h"

namespace weir::ledger {

// How far a journal is known to have come, in a file beside it that SQLite does not know of: a
// journal that was emptied, cut short, replaced, or whose log was lost is told from a new one by
// it. One line: the journal's name, the number of its last durable event, how many of its commits
// took notes, and a newline. Marks that say nothing of notes are of earlier releases, and are read.
//
// Guarantees:  never ahead of what is durable in the journal. Behind it by what was written since
//              the last sync, after a power cut alone.
// Threads:     one at a time.
class JournalMark {
 public:
  struct Held {
    std::uint64_t journal = 0;
    std::uint64_t last = 0;
    std::uint64_t notes = 0;  // commits that took some

    bool nothing() const noexcept { return last == 0 && notes == 0; }
    // What is there, in words: "20 events".
    std::string words() const;
  };
  static std::string path_of(const std::string& journal) { return journal + "-mark"; }

  // Absent where nothing was ever marked.
  //
  // Errors:      invalid_argument: what is there is no mark; unavailable: it cannot be read.
  static Result<std::optional<Held>> read(const std::string& journal);
  // For writing; made where it is not there.
  static Result<JournalMark> open(const std::string& journal);

  JournalMark(JournalMark&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  JournalMark& operator=(JournalMark&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~JournalMark();

  // A disk that does not take it leaves the mark behind, which only says less.
  void note(Held held) noexcept;
  void sync() noexcept;

 private:
  explicit JournalMark(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace weir::ledger
