#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ledger/journal.h"
#include "ledger/journal_reader.h"

// What the journal's tests share.
namespace weir::ledger::testing {

// A folder that is gone afterwards.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "weir-journal-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline Instant at_second(std::int64_t second) {
  return Instant{std::chrono::seconds(second)};
}

// The event number `lo` of process `hi`: one unit of tenant "acme".
inline UsageEvent event_of(std::uint64_t lo, std::uint64_t hi = 1) {
  return {.id = {hi, lo},
          .tenant = "acme",
          .route = "export",
          .rule = "1000 per day by account",
          .units = 1,
          .outage = true,
          .at = at_second(1'700'000'000),
          .window_start = at_second(1'699'920'000),
          .window = std::chrono::hours(24)};
}

// Waits for what `holds` says, far longer than it should take.
inline bool eventually(const std::function<bool()>& holds,
                       std::chrono::seconds most = std::chrono::seconds(30)) {
  const auto until = std::chrono::steady_clock::now() + most;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Appends and waits for the answer.
inline Result<void> append(Journal& journal, std::span<const UsageEvent> events,
                           std::vector<Note> notes) {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Result<void>> answer;
  journal.append(events, std::move(notes), [&](const Result<void>& done) {
    std::lock_guard lock(mutex);
    answer = done;
    changed.notify_one();
  });
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return answer.has_value(); });
  return *answer;
}

inline Result<void> append(Journal& journal, const UsageEvent& event) {
  return append(journal, {&event, 1}, {});
}

// Every note that the journal has, by its id: its units and its body.
using Notes = std::map<std::string, std::pair<std::int64_t, std::string>>;
inline Notes noted(const JournalFile::Options& file) {
  Notes found;
  auto reader = JournalReader::open(file);
  if (!reader) return found;
  (void)reader->notes([&](const Note& note) { found[note.id] = {note.units, note.body}; });
  return found;
}
// What `notes` become by these.
inline void take_note(Notes& notes, const std::vector<Note>& taken) {
  for (const Note& note : taken) {
    if (note.what == Note::Do::put) notes[note.id] = {note.units, note.body};
    if (note.what == Note::Do::remove) notes.erase(note.id);
    if (note.what != Note::Do::add) continue;
    notes[note.id].first += note.units;
    notes[note.id].second = note.body;
  }
}

// Every event that lies in the journal unsettled, by its id's `lo`, and how often.
inline std::map<std::uint64_t, int> recorded(const JournalFile::Options& file) {
  std::map<std::uint64_t, int> found;
  auto reader = JournalReader::open(file);
  if (!reader) return found;
  const auto events = reader->events(0, std::uint64_t{1} << 62, std::size_t{1} << 40);
  if (!events) return found;
  for (const StoredEvent& stored : *events) {
    const auto event = stored.read();
    ++found[event ? event->id.lo : ~std::uint64_t{0}];
  }
  return found;
}

}  // namespace weir::ledger::testing
