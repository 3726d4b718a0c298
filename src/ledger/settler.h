#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "ledger/journal.h"
#include "ledger/ledger.h"
#include "weir/clock.h"

namespace weir::ledger {

struct SettlerStatus {
  bool working = true;
  std::string why;             // not working: what the ledger or the journal said
  Nanos failing_for{0};        // not working: since when
  std::uint64_t settled = 0;   // events, by this process
  std::uint64_t repeated = 0;  // of these, those whose idempotency key was billed before
  std::uint64_t rejected = 0;  // events put aside
};

// Brings a journal's events into the ledger, in their order, in the background: again and again
// until the ledger took them, with growing waits while it does not. An event that the ledger can
// never take is put aside with the reason, and holds up nobody.
//
// Guarantees:  each event is billed once, wherever this process or the ledger stops; none leaves
//              the journal before the ledger confirmed it. A ledger that lost what it confirmed
//              gets nothing until somebody says so (Options::accept_loss).
// Threads:     one of its own; status() from any.
class Settler {
 public:
  // Opens the ledger; asked again after it failed.
  using Open = std::function<Result<std::unique_ptr<Ledger>>()>;
  struct Options {
    std::size_t batch = 2'000;                    // events a transaction
    Nanos wait = std::chrono::milliseconds(100);  // after the first failure; doubles
    Nanos max_wait = std::chrono::seconds(5);
    // Refusals of one event's content before it is put aside.
    int tries = 3;
    // Goes on with a ledger that does not have what this journal was told is settled: what is
    // missing there counts as rejected.
    bool accept_loss = false;
    // Hears when the ledger takes events no more, with why, and when it does again. Must not block.
    std::function<void(bool works, const std::string& why)> changed{};
    // Of a simulation: there is no thread; whoever made it calls turn() when the last one said.
    bool driven = false;
    std::optional<std::uint64_t> seed{};  // of the waits; absent: drawn
    // Set where this is to end: the ledger that `open` opens is to look at it, too (LedgerOptions).
    StopFlag stop{};
  };
  // `journal` and `clock` outlive this.
  Settler(Journal& journal, Open open, Clock& clock, Options options);
  Settler(Journal& journal, Open open, Clock& clock)
      : Settler(journal, std::move(open), clock, Options{}) {}
  ~Settler();
  Settler(const Settler&) = delete;
  Settler& operator=(const Settler&) = delete;

  // One step of the thread's work, where there is none; returns how long to wait for the next.
  Nanos turn();

  SettlerStatus status() const;

  // Ends its work, and waits for that no longer than so long. True: it ended.
  bool stop(Nanos most);

 private:
  void run();
  void work();
  // True: something was settled, and there may be more.
  Result<bool> step();
  Result<void> meet_journal(const Journal::Readable& readable);
  Result<bool> settle(std::span<const StoredEvent> events);
  Result<bool> refused(std::span<const StoredEvent> events, const Error& error);
  void hand_over(std::span<const StoredEvent> events, const std::vector<Applied>& applied);
  void note(const Result<bool>& result);

  Journal& journal_;
  const Open open_;
  Clock& clock_;
  const Options options_;

  // The thread's own.
  std::unique_ptr<Ledger> ledger_;
  std::uint64_t met_ = 0;   // the journal that seen_ is of
  EventNumber seen_ = 0;    // handed to the ledger and confirmed
  EventNumber single_ = 0;  // up to here one event at a time: one of them is refused
  int refusals_ = 0;        // of the event behind seen_
  Nanos wait_{0};
  bool idle_ = false;  // waits for events, and not for time
  std::mt19937_64 random_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool stopping_ = false;
  bool ended_ = false;
  SettlerStatus status_;
  MonoTime failing_since_{};

  std::thread thread_;  // last: it uses the rest
};

}  // namespace weir::ledger
