#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ledger/event_batch.h"
#include "ledger/folder_lock.h"
#include "ledger/journal_file.h"
#include "ledger/usage_event.h"
#include "weir/clock.h"
#include "weir/result.h"

namespace weir::ledger {

// What the journal is and holds, for people and machines.
struct JournalStatus {
  bool writable = false;
  std::string why;       // not writable: what the disk said
  Nanos failing_for{0};  // not writable: since when
  JournalFile::Counts counts;
  std::uint64_t waiting = 0;   // events between their callers and the disk
  std::uint64_t recorded = 0;  // by this process
  std::uint64_t refused = 0;   // by this process: events that it could not take
  std::uint64_t failures = 0;  // times that it became not writable
  std::uint64_t file_bytes = 0;
};

// Usage that is durable before the answer leaves: one thread commits what all callers hand in
// meanwhile, with one sync for all of them.
//
// Guarantees:  append() says yes only of events that are on the disk: acknowledged is always a part
//              of what the journal holds after a crash. What it said no to is never settled.
//              While the disk does not take events, append() says no at once; the file is opened
//              anew and its log written again, every Options::retry at most, until the disk took
//              what waits, or a write of no meaning, and what has to be carried into the database:
//              a file that merely opens proves nothing. A disk that hangs holds only those who were
//              there when it began: after kStuck it counts as one that takes nothing. Files that
//              are taken away, or may be written to no more, are missed within a second, whether
//              anything is written or not.
// Bounds:      max_bytes of events that the ledger has not taken yet, quarantined ones included,
// and
//              of notes that stand, which take half of it at most; max_waiting events in memory.
//              All other notes take half as much again, and kMostNotes of them: those that end
//              first are forgotten first. The file grows to about half as much again as max_bytes,
//              and 10 MiB. What is on its way to the disk counts as what it takes there: where
//              there is no room for an event there is none until the ledger has taken some.
// Threads:     any. Callbacks come from the committing thread, or from the caller's where the
//              journal says no at once; they must not block.
class Journal {
 public:
  // What the disk takes so long for takes nobody else in.
  static constexpr Nanos kStuck = std::chrono::seconds(1);

  struct Options {
    std::string folder;
    std::uint64_t max_bytes = std::uint64_t{256} << 20;  // at least 2
    std::size_t max_waiting = 65'536;
    Nanos within = std::chrono::milliseconds(100);  // follow(): on the disk no later, in good times
    Nanos retry = std::chrono::milliseconds(500);
    std::string vfs;        // of tests; empty: the system's files
    int log_pages = 1'000;  // as JournalFile::Options
    // Hears when the disk takes events no more, with why, and when it does again: in turns, from
    // any thread. Must not block.
    std::function<void(bool writable, const std::string& why)> changed{};
    // Reads what it needs of a journal that this process did not have before, in the committing
    // thread and before anything is taken; where it cannot, the journal is not opened, and it is
    // asked again.
    std::function<Result<void>(JournalFile& file)> meet{};
    // Of a simulation: its clock, and what hears that there is work. Given both, there is no
    // thread: whoever opened the journal calls turn() when it was woken, and when turn() said.
    Clock* clock = nullptr;
    std::function<void()> wake{};
    std::uint64_t name = 0;  // as JournalFile::Options
  };

  // Errors:      failed_precondition: another process writes to this folder; invalid_argument: the
  //              folder cannot be made or locked. A disk that does not take events is no error
  //              here: the journal is not writable until it does.
  static Result<std::unique_ptr<Journal>> open(Options options);
  // Writes what waits, where the disk takes it.
  ~Journal();
  // The same, before the end of it: nothing is taken from then on, but from callbacks of what
  // waits. Returns how many events were kept in memory and never recorded: they end with this
  // process.
  std::uint64_t close() noexcept;
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  using Done = std::function<void(const Result<void>&)>;
  // Records the events, all or none, and calls `done` once: after they became durable, or with why
  // they did not.
  void append(std::span<const UsageEvent> events, Done done) {
    append(events, {}, std::move(done));
  }
  // The same, with what is to be known again: all of it, or none.
  void append(std::span<const UsageEvent> events, std::vector<Note> notes, Done done);
  // Records the events within Options::within, while the disk takes them; keeps them meanwhile in
  // memory, where a crash loses them. False: there is no room for them, and none was taken.
  bool follow(std::span<const UsageEvent> events, std::vector<Note> notes = {});

  // Says so where the disk hangs: to be called now and then, for its own thread cannot.
  void look();

  // Whether follow() would keep one more event now.
  bool has_room() const;

  // The ledger has every event up to `settled.upto` but those that it rejected: they need no room
  // here any more.
  void settled(Settled settled);
  // Passes over numbers that the ledger has seen already: see JournalFile::skip_to().
  void skip_to(EventNumber number);

  // Everything up to here may be settled; comes with the journal's name. Absent while there is no
  // journal to read.
  struct Readable {
    std::uint64_t journal = 0;
    EventNumber settled_upto = 0;
    EventNumber last = 0;
  };
  std::optional<Readable> readable() const;
  // Returns when there is something behind `seen` to settle, or after `most`.
  void wait_for_events(EventNumber seen, Nanos most) const;

  // One step of the thread's work, where there is none; answers what it finished. Returns how long
  // there is nothing more to do; absent: there is nothing any more, for the journal is closed.
  std::optional<Nanos> turn();

  bool writable() const;
  // Whether a journal was opened, and met: see Options::meet.
  bool met() const;
  // Whether the caller is in the committing thread, which answers append(): it must not wait for
  // that.
  bool in_its_thread() const noexcept;
  JournalStatus status() const;
  const Options& options() const noexcept { return options_; }
  // Of the file in the folder.
  static JournalFile::Options file_in(const std::string& folder, const std::string& vfs = {});

 private:
  // What callers handed in and the thread has not taken.
  struct Queue {
    EventBatch events;
    std::vector<Note> notes;
    struct Waiter {
      std::size_t end = 0;        // of its events
      std::size_t notes_end = 0;  // of its notes
      Done done;                  // empty: nobody waits
    };
    std::vector<Waiter> waiters;
    std::size_t waited_for = 0;  // of the waiters, those who wait
    // What it will take of the file, and of that, what is to stand there.
    std::uint64_t bytes = 0;
    std::uint64_t standing = 0;
    MonoTime first{};
    void clear() noexcept;
  };

  Journal(Options options, FolderLock lock);
  struct Needs {
    std::uint64_t bytes = 0;     // of the file
    std::uint64_t standing = 0;  // of these, what is to stand there
  };
  static Needs needs_of(const EventBatch& events, std::size_t first, std::span<const Note> notes);
  std::uint64_t held() const;
  Result<void> room(const Needs& needs) const;
  bool closed_to_caller() const;
  bool push(std::span<const UsageEvent> events, std::vector<Note>& notes, Done* done, Error& why);
  MonoTime mono_now() const { return clock_.mono(); }
  bool driven() const noexcept { return static_cast<bool>(options_.wake); }
  void wake_thread();
  void run();
  void end_thread() noexcept;
  std::optional<Nanos> step(std::unique_lock<std::mutex>& lock);
  void tell(std::unique_lock<std::mutex>& lock);
  Result<void> hold_folder();
  void reopen(std::unique_lock<std::mutex>& lock);
  void look_at_file(std::unique_lock<std::mutex>& lock);
  void drop_file(std::unique_lock<std::mutex>& lock, const Result<void>& why);
  void commit(std::unique_lock<std::mutex>& lock);
  bool due(MonoTime now) const;
  bool hangs() const;
  void notice_hang();
  Error does_not_answer() const;
  void fail(const Error& error);
  std::vector<Done> keep_followers();
  void keep_settled(Settled settled);
  void publish();

  const Options options_;
  Clock& clock_;

  // The thread's own.
  std::optional<FolderLock> lock_;  // of the folder that was there last
  std::optional<JournalFile> file_;
  std::optional<JournalFile::Durable> durable_;  // absent: nothing was ever opened by this process
  std::uint64_t met_ = 0;                        // the journal that Options::meet read
  MonoTime next_try_{};                          // no earlier is the file opened anew
  MonoTime next_look_{};                         // no later is it looked whether it is in place
  Queue taken_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;    // for the thread
  mutable std::condition_variable committed_;  // for settlement
  std::condition_variable left_;               // for who waits for the thread's end
  Queue queue_;
  Settled settled_;
  EventNumber skip_to_ = 0;
  bool stopping_ = false;
  std::optional<Error> failure_;
  MonoTime failing_since_{};
  bool full_ = false;                   // there was no room for something since it took events last
  std::optional<MonoTime> busy_since_;  // the thread is with the disk
  bool hung_ = false;                   // and was noticed to be so for too long
  bool told_failing_ = false;
  bool telling_ = false;  // some thread is
  bool left_thread_ = false;
  JournalFile::Counts counts_;
  std::uint64_t id_ = 0;
  std::uint64_t in_flight_ = 0;
  std::uint64_t in_flight_bytes_ = 0;
  std::uint64_t in_flight_standing_ = 0;
  std::uint64_t recorded_ = 0;
  std::uint64_t refused_ = 0;
  std::uint64_t failures_ = 0;
  std::uint64_t lost_ = 0;
  bool ended_ = false;  // its work

  std::thread thread_;  // last: it uses the rest
};

}  // namespace weir::ledger
