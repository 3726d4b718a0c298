#include "ledger/journal.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/file_size_signal.h"
#include "ledger/packed_events.h"

namespace weir::ledger {
namespace {

// Whose committing thread this is.
thread_local const Journal* running_here = nullptr;

// While the thread opens the file for the first time nobody is refused for that.
constexpr Nanos kFirstOpening = std::chrono::seconds(2);

// So long the end of a process waits for the disk without a word.
constexpr Nanos kQuietEnd = std::chrono::seconds(2);

// So often it is looked whether the files are still there and may be written to.
constexpr Nanos kLookEvery = std::chrono::milliseconds(500);

// Until somebody brings something.
constexpr Nanos kNothingToDo = std::chrono::hours(1);

}  // namespace

void Journal::Queue::clear() noexcept {
  events.clear();
  notes.clear();
  waiters.clear();
  waited_for = 0;
  bytes = standing = 0;
}

JournalFile::Options Journal::file_in(const std::string& folder, const std::string& vfs) {
  return {.path = folder + "/journal.db", .vfs = vfs};
}

Result<std::unique_ptr<Journal>> Journal::open(Options options) {
  auto lock = FolderLock::take(options.folder);
  if (!lock) return lock.error();
  std::unique_ptr<Journal> journal(new Journal(std::move(options), std::move(*lock)));
  if (journal->driven()) {
    (void)journal->turn();
    return journal;
  }
  std::unique_lock waiting(journal->mutex_);
  journal->committed_.wait_for(waiting, kFirstOpening,
                               [&] { return journal->id_ != 0 || journal->failures_ != 0; });
  waiting.unlock();
  return journal;
}

Journal::Journal(Options options, FolderLock lock)
    : options_(std::move(options)),
      clock_(options_.clock != nullptr ? *options_.clock : Clock::real()),
      lock_(std::move(lock)),
      failure_(Error{ErrorCode::unavailable, options_.folder + ": the journal is being opened"}),
      failing_since_(mono_now()) {
  if (!driven()) thread_ = std::thread([this] { run(); });
}

Journal::~Journal() {
  (void)close();
}

std::uint64_t Journal::close() noexcept {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  committed_.notify_all();
  if (ended_ || (!driven() && !thread_.joinable())) return lost_;
  if (driven()) {
    while (turn()) continue;
  } else {
    end_thread();
  }
  ended_ = true;
  // Nobody was told that these are recorded, but somebody has to hear that they are not.
  lost_ = queue_.events.size();
  if (lost_ > 0 && options_.changed) {
    options_.changed(false, options_.folder + ": " + std::to_string(lost_) +
                                " events were never recorded, and end with this process" +
                                (failure_ ? ": " + failure_->message : std::string()));
  }
  return lost_;
}

// No process can leave a disk that hangs: it is waited for, and somebody hears why.
void Journal::end_thread() noexcept {
  std::unique_lock lock(mutex_);
  const bool quick = left_.wait_for(lock, kQuietEnd, [this] { return left_thread_; });
  lock.unlock();
  if (!quick && options_.changed) {
    options_.changed(false, options_.folder +
                                ": the end of this process waits for the disk, which does not "
                                "answer");
  }
  thread_.join();
  if (!quick && options_.changed && !failure_) options_.changed(true, {});
}

Journal::Needs Journal::needs_of(const EventBatch& events, std::size_t first,
                                 std::span<const Note> notes) {
  Needs needs;
  for (std::size_t i = first; i < events.size(); ++i) needs.bytes += packed_size(events[i].size());
  for (const Note& note : notes) needs.standing += note.stands ? bytes_of(note) : 0;
  needs.bytes += needs.standing;
  return needs;
}

// Under the lock: what counts of the file and of what is on its way to it. Reservations of an
// earlier process, with more room, must not keep their own settling out.
std::uint64_t Journal::held() const {
  return counts_.unsettled_bytes + counts_.quarantined_bytes +
         std::min(counts_.standing_bytes, options_.max_bytes / 2) + in_flight_bytes_ + queue_.bytes;
}

// Under the lock: whether what was queued, and needs so much, may stay.
Result<void> Journal::room(const Needs& needs) const {
  if (std::max(queue_.events.size(), queue_.notes.size()) + in_flight_ > options_.max_waiting) {
    return Error{ErrorCode::resource_exhausted,
                 "journal: " + std::to_string(options_.max_waiting) +
                     " events wait for the disk, which is as many as may"};
  }
  if (needs.standing > 0 &&
      counts_.standing_bytes + in_flight_standing_ + queue_.standing + needs.standing >
          options_.max_bytes / 2) {
    return Error{ErrorCode::resource_exhausted, "journal: full: reservations that stand take " +
                                                    std::to_string(options_.max_bytes / 2) +
                                                    " bytes, which is as many as may"};
  }
  if (needs.bytes > 0 && held() + needs.bytes > options_.max_bytes) {
    return Error{ErrorCode::resource_exhausted,
                 "journal: full: " + std::to_string(options_.max_bytes) +
                     " bytes of events wait for the ledger, which is as many as may"};
  }
  return {};
}

// Under the lock.
bool Journal::push(std::span<const UsageEvent> events, std::vector<Note>& notes, Done* done,
                   Error& why) {
  const std::size_t before = queue_.events.size();
  const std::size_t notes_before = queue_.notes.size();
  Result<void> taken;
  for (std::size_t i = 0; i < events.size() && taken; ++i) taken = queue_.events.add(events[i]);
  const Needs needs = needs_of(queue_.events, before, notes);
  for (Note& note : notes) queue_.notes.push_back(std::move(note));
  if (taken) taken = room(needs);
  if (!taken) {
    queue_.events.cut(before);
    queue_.notes.resize(notes_before);
    why = taken.error();
    return false;
  }
  queue_.bytes += needs.bytes;
  queue_.standing += needs.standing;
  if (queue_.waiters.empty()) queue_.first = mono_now();
  queue_.waiters.push_back(
      {queue_.events.size(), queue_.notes.size(), done != nullptr ? std::move(*done) : Done{}});
  if (done != nullptr) ++queue_.waited_for;
  return true;
}

void Journal::append(std::span<const UsageEvent> events, std::vector<Note> notes, Done done) {
  Error why;
  bool wake = false;
  {
    std::unique_lock lock(mutex_);
    notice_hang();
    if (closed_to_caller()) {
      why = Error{ErrorCode::unavailable, options_.folder + ": the journal is closed"};
      refused_ += events.size();
    } else if (!failure_ && push(events, notes, &done, why)) {
      wake = queue_.waited_for == 1;
      done = nullptr;
    } else {
      if (failure_) why = *failure_;
      refused_ += events.size();
    }
    if (hung_) tell(lock);
  }
  if (wake) wake_thread();
  if (done) done(why);
}

bool Journal::follow(std::span<const UsageEvent> events, std::vector<Note> notes) {
  Error why;
  std::lock_guard lock(mutex_);
  if (closed_to_caller() || !push(events, notes, nullptr, why)) {
    refused_ += events.size();
    return false;
  }
  if (queue_.waiters.size() == 1) wake_thread();
  return true;
}

// Under the lock. Whoever is told of the last commits may still have something to say of them, as
// that nobody was left to be told.
bool Journal::closed_to_caller() const {
  return stopping_ && !in_its_thread();
}

void Journal::look() {
  std::unique_lock lock(mutex_);
  notice_hang();
  if (hung_) tell(lock);
}

// Under the lock.
bool Journal::hangs() const {
  return busy_since_ && mono_now() - *busy_since_ > kStuck;
}

// Under the lock.
void Journal::notice_hang() {
  if (hung_ || !hangs()) return;
  hung_ = true;
  if (failure_ && failures_ > 0) return;
  fail(does_not_answer());
  failing_since_ = *busy_since_;
}

Error Journal::does_not_answer() const {
  return {ErrorCode::unavailable, options_.folder + ": the disk does not answer"};
}

bool Journal::has_room() const {
  std::lock_guard lock(mutex_);
  return queue_.events.size() + in_flight_ < options_.max_waiting && held() < options_.max_bytes;
}

void Journal::settled(Settled settled) {
  std::lock_guard lock(mutex_);
  if (settled.journal != id_) return;  // of a journal that lay here before
  keep_settled(std::move(settled));
  wake_thread();
}

// Under the lock.
void Journal::keep_settled(Settled settled) {
  settled_.journal = settled.journal;
  settled_.upto = std::max(settled_.upto, settled.upto);
  settled_.at = settled.at;
  for (auto& rejected : settled.rejected) settled_.rejected.push_back(std::move(rejected));
}

void Journal::skip_to(EventNumber number) {
  std::lock_guard lock(mutex_);
  skip_to_ = std::max(skip_to_, number);
  wake_thread();
}

std::optional<Journal::Readable> Journal::readable() const {
  std::lock_guard lock(mutex_);
  if (id_ == 0) return std::nullopt;
  return Readable{.journal = id_, .settled_upto = counts_.settled_upto, .last = counts_.last};
}

void Journal::wait_for_events(EventNumber seen, Nanos most) const {
  std::unique_lock lock(mutex_);
  committed_.wait_for(lock, most, [&] { return stopping_ || counts_.last > seen; });
}

bool Journal::writable() const {
  std::lock_guard lock(mutex_);
  return !failure_ && !hangs();
}

bool Journal::met() const {
  std::lock_guard lock(mutex_);
  return id_ != 0;
}

JournalStatus Journal::status() const {
  JournalStatus status;
  {
    std::lock_guard lock(mutex_);
    status.writable = !failure_ && !hangs();
    if (!status.writable) {
      status.why = failure_ ? failure_->message : does_not_answer().message;
      status.failing_for = mono_now() - (failure_ ? failing_since_ : *busy_since_);
    }
    status.counts = counts_;
    status.waiting = queue_.events.size() + in_flight_;
    status.recorded = recorded_;
    status.refused = refused_;
    status.failures = failures_;
  }
  status.file_bytes = bytes_on_disk(file_in(options_.folder).path);
  return status;
}

bool Journal::in_its_thread() const noexcept {
  return running_here == this;
}

void Journal::run() {
  take_file_size_as_error();
  running_here = this;
  std::unique_lock lock(mutex_);
  while (const auto rest = step(lock)) {
    if (*rest <= Nanos{0}) continue;
    if (file_) {
      changed_.wait_for(lock, *rest);
    } else {
      changed_.wait_for(lock, *rest, [&] { return stopping_; });
    }
  }
  left_thread_ = true;
  left_.notify_all();
}

std::optional<Nanos> Journal::turn() {
  const Journal* const before = std::exchange(running_here, this);
  std::unique_lock lock(mutex_);
  const auto rest = step(lock);
  running_here = before;
  return rest;
}

// Under the lock: some work, and how long there is no more.
std::optional<Nanos> Journal::step(std::unique_lock<std::mutex>& lock) {
  tell(lock);
  const MonoTime now = mono_now();
  if (!file_) {
    if (now < next_try_ && !stopping_) return next_try_ - now;
    if (failures_ > 0) next_try_ = now + options_.retry;
    reopen(lock);
    tell(lock);
    if (file_) return Nanos{0};
    return stopping_ ? std::nullopt : std::optional(options_.retry);
  }
  if (stopping_ && queue_.waiters.empty()) return std::nullopt;
  const bool looks = options_.vfs.empty();
  if (looks && !failure_ && now >= next_look_) {
    look_at_file(lock);
    return Nanos{0};
  }
  // Opened anew, it has still to show that the disk takes something.
  if (failure_ || due(now)) {
    commit(lock);
    if (!file_ && stopping_) return std::nullopt;
    return Nanos{0};
  }
  const Nanos rest = queue_.waiters.empty() ? kNothingToDo : queue_.first + options_.within - now;
  return looks ? std::min(rest, Nanos(next_look_ - now)) : rest;
}

void Journal::wake_thread() {
  if (driven()) {
    options_.wake();
  } else {
    changed_.notify_one();
  }
}

// Under the lock. One at a time, so that what is heard last is what is so.
void Journal::tell(std::unique_lock<std::mutex>& lock) {
  const auto failing = [this] { return failure_ && failures_ > 0; };
  if (telling_ || !options_.changed) return;
  telling_ = true;
  while (failing() != told_failing_) {
    told_failing_ = failing();
    const bool works = !told_failing_;
    const std::string why = works ? std::string() : failure_->message;
    lock.unlock();
    options_.changed(works, why);
    lock.lock();
  }
  telling_ = false;
}

// Under the lock.
bool Journal::due(MonoTime now) const {
  if (queue_.waited_for > 0 || stopping_) return true;
  if (settled_.upto > counts_.settled_upto || !settled_.rejected.empty() || skip_to_ > counts_.last)
    return true;
  return !queue_.waiters.empty() && now >= queue_.first + options_.within;
}

// The folder that is locked may have been moved away since: another one in its place is somebody
// else's until it is locked, too. Nothing is begun in it: it may be what a disk is mounted on.
Result<void> Journal::hold_folder() {
  if (!options_.vfs.empty() || lock_->is_of(options_.folder)) return {};
  const std::string path = file_in(options_.folder).path;
  if (::access(path.c_str(), F_OK) != 0) {
    return Error{ErrorCode::unavailable,
                 options_.folder +
                     ": was taken away, or replaced, and there is no journal in it; bring it back, "
                     "or start anew to begin another"};
  }
  auto taken = FolderLock::take(options_.folder, FolderLock::Missing::refuse);
  if (!taken) return taken.error();
  lock_.emplace(std::move(*taken));
  return {};
}

void Journal::reopen(std::unique_lock<std::mutex>& lock) {
  busy_since_ = mono_now();
  JournalFile::Options file = file_in(options_.folder, options_.vfs);
  file.whole_log = full_;
  lock.unlock();
  file.log_pages = options_.log_pages;
  file.name = options_.name;
  file.most_note_bytes = options_.max_bytes / 2;
  const auto held = hold_folder();
  auto opened = held ? JournalFile::open(file, durable_) : Result<JournalFile>(held.error());
  if (opened && options_.meet && opened->id() != met_) {
    const auto met = options_.meet(*opened);
    if (met) met_ = opened->id();
    if (!met) opened = met.error();
  }
  lock.lock();
  busy_since_.reset();
  hung_ = false;
  if (!opened) {
    fail(opened.error());
    return;
  }
  // Another journal lies where ours did: its numbers begin anew.
  if (id_ != 0 && opened->id() != id_) settled_ = {};
  file_ = std::move(*opened);
  next_look_ = mono_now() + kLookEvery;
  if (failures_ == 0) failure_.reset();
  publish();
}

void Journal::commit(std::unique_lock<std::mutex>& lock) {
  std::swap(queue_, taken_);
  Settled settled = std::exchange(settled_, {});
  const EventNumber skip = std::exchange(skip_to_, 0);
  const bool failing = failure_.has_value();
  in_flight_ = taken_.events.size();
  in_flight_bytes_ = taken_.bytes;
  in_flight_standing_ = taken_.standing;
  busy_since_ = mono_now();
  lock.unlock();
  Result<void> done = failing ? file_->prove() : Result<void>();
  if (done && skip > file_->counts().last) done = file_->skip_to(skip);
  if (done) done = file_->commit(taken_.events, settled, taken_.notes);
  std::vector<Done> waiting;
  lock.lock();
  // Before anybody hears of it: who asks again must not be kept waiting by what failed, nor refused
  // for a disk that answered.
  if (done) {
    recorded_ += in_flight_;
    publish();
    if (hung_ && !failing) failure_.reset();
  } else {
    fail(done.error());
    waiting = keep_followers();
    if (settled.journal != 0) keep_settled(std::move(settled));
    skip_to_ = std::max(skip_to_, skip);
  }
  in_flight_ = 0;
  in_flight_bytes_ = in_flight_standing_ = 0;
  hung_ = false;
  busy_since_ = mono_now();
  lock.unlock();
  for (Queue::Waiter& waiter : taken_.waiters) {
    if (waiter.done) waiter.done(done);
  }
  for (Done& one : waiting) one(done);
  taken_.clear();
  Result<void> tidied = done ? file_->tidy() : Result<void>();
  lock.lock();
  busy_since_.reset();
  const bool hung = std::exchange(hung_, false);
  if (done && tidied) {
    counts_.oldest = file_->counts().oldest;
    if (failing || hung) failure_.reset();
    full_ = full_ && failure_;
    return;
  }
  if (done) {
    drop_file(lock, tidied);
  } else {
    file_.reset();
  }
}

// Under the lock.
void Journal::look_at_file(std::unique_lock<std::mutex>& lock) {
  busy_since_ = mono_now();
  lock.unlock();
  const Result<void> fit = file_->look();
  lock.lock();
  busy_since_.reset();
  next_look_ = mono_now() + kLookEvery;
  // A disk that was found to hang has still to take something: nothing was written here.
  hung_ = false;
  if (!fit) drop_file(lock, fit);
}

// Under the lock: it is opened anew, and whoever waits hears why not now.
void Journal::drop_file(std::unique_lock<std::mutex>& lock, const Result<void>& why) {
  file_.reset();
  fail(why.error());
  const std::vector<Done> waiting = keep_followers();
  lock.unlock();
  for (const Done& one : waiting) one(why);
  lock.lock();
}

// Under the lock.
void Journal::fail(const Error& error) {
  if (!failure_ || failures_ == 0) {
    failing_since_ = mono_now();
    ++failures_;
  }
  failure_ = error;
  full_ = full_ || error.code == ErrorCode::resource_exhausted;
  committed_.notify_all();
}

// Under the lock: events that nobody waits for stay, those of taken_ before those that came since.
// Returns who waits in queue_, whose events are dropped; who waits in taken_ stays there.
std::vector<Journal::Done> Journal::keep_followers() {
  Queue kept;
  std::vector<Done> waiting;
  for (Queue* from : {&taken_, &queue_}) {
    std::size_t begin = 0;
    std::size_t notes_begin = 0;
    for (Queue::Waiter& waiter : from->waiters) {
      if (!waiter.done) {
        for (std::size_t i = notes_begin; i < waiter.notes_end; ++i)
          kept.notes.push_back(std::move(from->notes[i]));
        for (std::size_t i = begin; i < waiter.end; ++i) kept.events.add_encoded(from->events[i]);
        kept.waiters.push_back({kept.events.size(), kept.notes.size(), {}});
      } else {
        refused_ += waiter.end - begin;
        if (from == &queue_) waiting.push_back(std::move(waiter.done));
      }
      begin = waiter.end;
      notes_begin = waiter.notes_end;
    }
  }
  const Needs needs = needs_of(kept.events, 0, kept.notes);
  kept.bytes = needs.bytes;
  kept.standing = needs.standing;
  kept.first = mono_now();
  queue_ = std::move(kept);
  return waiting;
}

// Under the lock: what others may see of the file.
void Journal::publish() {
  counts_ = file_->counts();
  if (counts_.unsettled == 0) counts_.oldest.reset();  // the file looks for the next one later
  id_ = file_->id();
  durable_ =
      JournalFile::Durable{.journal = id_, .last = counts_.last, .notes = file_->notes_done()};
  committed_.notify_all();
}

}  // namespace weir::ledger
