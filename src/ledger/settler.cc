#include "ledger/settler.h"

#include <algorithm>
#include <utility>

#include "base/file_size_signal.h"

namespace weir::ledger {
namespace {

// How long an idle settler waits before it looks whether it is to end.
constexpr Nanos kIdle = std::chrono::milliseconds(200);

}  // namespace

Settler::Settler(Journal& journal, Open open, Clock& clock, Options options)
    : journal_(journal),
      open_(std::move(open)),
      clock_(clock),
      options_(std::move(options)),
      random_(options_.seed ? *options_.seed : std::random_device{}()) {
  if (!options_.driven) thread_ = std::thread([this] { run(); });
}

Settler::~Settler() {
  (void)stop(Nanos{0});
  if (thread_.joinable()) thread_.join();
}

bool Settler::stop(Nanos most) {
  if (options_.stop) options_.stop->store(true, std::memory_order_relaxed);
  std::unique_lock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  return options_.driven || changed_.wait_for(lock, most, [&] { return ended_; });
}

SettlerStatus Settler::status() const {
  std::lock_guard lock(mutex_);
  SettlerStatus status = status_;
  if (!status.working) status.failing_for = clock_.mono() - failing_since_;
  return status;
}

void Settler::run() {
  take_file_size_as_error();
  work();
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
}

void Settler::work() {
  for (;;) {
    const Nanos rest = turn();
    if (idle_) journal_.wait_for_events(seen_, rest);
    std::unique_lock lock(mutex_);
    if (!idle_ && rest > Nanos{0}) changed_.wait_for(lock, rest, [&] { return stopping_; });
    if (stopping_) return;
  }
}

Nanos Settler::turn() {
  const Result<bool> result = step();
  note(result);
  idle_ = result && !*result;
  if (result) {
    wait_ = Nanos{0};
    return idle_ ? kIdle : Nanos{0};
  }
  wait_ = wait_ == Nanos{0} ? options_.wait : std::min(wait_ * 2, options_.max_wait);
  // A fleet whose ledger comes back does not come back to it at one moment.
  const auto part = static_cast<std::int64_t>(random_() % 512);
  return wait_ * (768 + part) / 1'024;
}

void Settler::note(const Result<bool>& result) {
  bool changed = false;
  {
    std::lock_guard lock(mutex_);
    changed = status_.working != result.has_value();
    if (!result && changed) failing_since_ = clock_.mono();
    status_.working = result.has_value();
    status_.why = result ? std::string() : result.error().message;
  }
  if (changed && options_.changed) options_.changed(status_.working, status_.why);
}

Result<bool> Settler::step() {
  const auto readable = journal_.readable();
  if (!readable) return false;
  if (!ledger_) {
    auto opened = open_();
    if (!opened) return opened.error();
    ledger_ = std::move(*opened);
  }
  if (readable->journal != met_) {
    if (auto met = meet_journal(*readable); !met) {
      ledger_.reset();
      return met.error();
    }
  }
  if (readable->last <= seen_) return false;
  auto reader =
      JournalReader::open(Journal::file_in(journal_.options().folder, journal_.options().vfs));
  if (!reader) return reader.error();
  const auto name = reader->id();
  if (!name) return name.error();
  if (*name != met_) return false;  // another lies there now: readable() will say so
  const std::size_t most = seen_ < single_ ? 1 : options_.batch;
  const auto events = reader->events(seen_, readable->last, most);
  if (!events) return events.error();
  if (events->empty()) {
    seen_ = readable->last;  // numbers that were passed over
    return false;
  }
  return settle(*events);
}

// Numbers that the ledger has of a journal are never given again, not even by one that came back
// from a backup.
Result<void> Settler::meet_journal(const Journal::Readable& readable) {
  const auto balance = ledger_->journal(readable.journal);
  if (!balance) return balance.error();
  if (balance->last < readable.settled_upto) {
    const std::string lost = "ledger: it has the events of this journal up to number " +
                             std::to_string(balance->last) + ", and confirmed those up to " +
                             std::to_string(readable.settled_upto);
    if (!options_.accept_loss) {
      return Error{ErrorCode::failed_precondition,
                   lost +
                       ": it was emptied, or is another one; bring it back, or go on with this "
                       "one by `weir journal replay --accept-loss`"};
    }
    auto done = ledger_->reject(readable.journal, readable.settled_upto, lost);
    if (!done) return done;
  }
  if (balance->last > readable.last) journal_.skip_to(balance->last);
  met_ = readable.journal;
  seen_ = readable.settled_upto;
  single_ = 0;
  refusals_ = 0;
  return {};
}

Result<bool> Settler::settle(std::span<const StoredEvent> events) {
  const auto applied = ledger_->apply(met_, events, clock_.now());
  if (!applied) {
    // Whatever went wrong, the next try has a session of its own.
    ledger_.reset();
    if (applied.error().code == ErrorCode::internal) return refused(events, applied.error());
    return applied.error();
  }
  hand_over(events, *applied);
  return true;
}

// The content of one of these events is refused: alone, it shows itself.
Result<bool> Settler::refused(std::span<const StoredEvent> events, const Error& error) {
  if (events.size() > 1) {
    single_ = events.back().number;
    refusals_ = 0;
    return true;
  }
  if (++refusals_ < options_.tries) return error;
  auto opened = open_();
  if (!opened) return opened.error();
  ledger_ = std::move(*opened);
  const EventNumber number = events.front().number;
  const auto balance = ledger_->journal(met_);
  if (!balance) return balance.error();
  // It is in the ledger after all: what failed was only the word of it.
  if (balance->last >= number) return true;
  if (auto done = ledger_->reject(met_, number, error.message); !done) return done.error();
  hand_over(events, {{Applied::Outcome::rejected, error.message}});
  return true;
}

void Settler::hand_over(std::span<const StoredEvent> events, const std::vector<Applied>& applied) {
  Settled settled{
      .journal = met_, .upto = events.back().number, .rejected = {}, .at = clock_.now()};
  std::uint64_t repeated = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (applied[i].outcome == Applied::Outcome::rejected)
      settled.rejected.push_back({events[i].number, applied[i].reason});
    if (applied[i].outcome == Applied::Outcome::repeated) ++repeated;
  }
  refusals_ = 0;
  seen_ = settled.upto;
  {
    std::lock_guard lock(mutex_);
    status_.settled += events.size() - settled.rejected.size();
    status_.repeated += repeated;
    status_.rejected += settled.rejected.size();
  }
  journal_.settled(std::move(settled));
}

}  // namespace weir::ledger
