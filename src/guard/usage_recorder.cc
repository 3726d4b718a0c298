#include "guard/usage_recorder.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/key_digest.h"
#include "base/random.h"
#include "ledger/event_batch.h"
#include "ledger/journal.h"
#include "ledger/ledger.h"
#include "ledger/settler.h"
#include "limit/step.h"
#include "policy/key.h"
#include "render/text.h"

namespace weir::guard {
namespace {

constexpr std::string_view kHex = "0123456789abcdef";

void append_escaped(std::string_view value, std::string& out) {
  for (std::size_t i = 0; i < value.size(); ++i) {
    const char c = value[i];
    if (c != '%' && c != '/' && !(i == 0 && (c == '~' || c == '#'))) {
      out.push_back(c);
      continue;
    }
    out.push_back('%');
    out.push_back(kHex[static_cast<unsigned char>(c) >> 4]);
    out.push_back(kHex[static_cast<unsigned char>(c) & 15]);
  }
}

// The rule's period that `at` falls into: of rules without windows, one of those that lie from the
// epoch on. A month or a year of the calendar is as long as it is.
limit::Window window_of(const limit::Numbers& numbers, Instant at) {
  const std::int64_t now = at.time_since_epoch().count();
  if (numbers.algorithm == Algorithm::fixed_window) return limit::window_at(numbers, at);
  const std::int64_t start = now - now % numbers.period_ns;
  return {.start_ns = start, .end_ns = start + numbers.period_ns};
}

// Notes begin with whose they are: 'k' an idempotency key, 'o' overspend, 'r' a reservation.

void put(std::string& out, std::uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) out.push_back(static_cast<char>(value >> shift));
}

std::uint64_t number_at(std::string_view bytes, std::size_t at) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i)
    value |= std::uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  return value;
}

std::string_view bytes_of(const ValueDigester::Digest& digest) {
  return {digest.data(), digest.size()};
}

// How far the clock of a process that starts without the store may be behind the store's, by which
// the one before it went: so much longer is known what was overspent in a window that is over.
constexpr Nanos kClockBehind = std::chrono::minutes(1);

// How long the end of a process waits for what it was telling the ledger.
constexpr Nanos kLedgerPatience = std::chrono::seconds(2);

ledger::Note note_of_request(const Plan& plan, const UsageRecorder::Usage& usage) {
  return {.id = "k" + std::string(bytes_of(plan.request.key)),
          .at = usage.at,
          .until = usage.at + kIdempotencyMemory,
          .units = static_cast<std::int64_t>(usage.rung),
          .body = std::string(bytes_of(plan.request.asked)) + plan.request.place};
}

ledger::Note note_of_overspend(const store::Counter& counter, const ledger::UsageEvent& event) {
  std::string id = "o";
  put(id, counter.digest.hi);
  put(id, counter.digest.lo);
  put(id, static_cast<std::uint64_t>(event.window_start.time_since_epoch().count()));
  return {.id = std::move(id),
          .at = event.at,
          .until = event.window_start + event.window + kClockBehind,
          .units = static_cast<std::int64_t>(event.overspent),
          .body = {},
          .what = ledger::Note::Do::add};
}

}  // namespace

std::string tenant_of(std::string_view key) {
  std::string out;
  std::string_view rest = key.substr(8);
  for (bool first = true; !rest.empty(); first = false) {
    if (!first) out.push_back('/');
    const auto length = static_cast<unsigned char>(rest.front());
    rest.remove_prefix(1);
    if (length == policy::KeyWriter::kAbsent) {
      out.push_back('~');
      continue;
    }
    if (length != policy::KeyWriter::kDigested) {
      append_escaped(rest.substr(0, length), out);
      rest.remove_prefix(length);
      continue;
    }
    out.push_back('#');
    for (const char c : rest.substr(0, sizeof(ValueDigester::Digest))) {
      out.push_back(kHex[static_cast<unsigned char>(c) >> 4]);
      out.push_back(kHex[static_cast<unsigned char>(c) & 15]);
    }
    rest.remove_prefix(sizeof(ValueDigester::Digest));
  }
  return out;
}

// One event for each metered rule, and what they point to.
class UsageRecorder::Events {
 public:
  Events(const Plan& plan, const Usage& usage, std::uint64_t process,
         std::atomic<std::uint64_t>& next) {
    const policy::Route& route = *plan.route->route;
    for (std::size_t i = 0; i < plan.count; ++i) {
      if ((usage.metered >> i & 1) == 0) continue;
      const store::Counter& counter = plan.counters[i];
      const limit::Window window = window_of(*counter.numbers, usage.at);
      tenants_[count_] = tenant_of(counter.key);
      events_[count_] = {
          .id = {process, next.fetch_add(1, std::memory_order_relaxed)},
          .tenant = tenants_[count_],
          .route = plan.route->name,
          .rule = plan.rules[i]->name,
          .idempotency_key =
              plan.marks > 0 ? std::string_view(plan.request_key) : std::string_view(),
          .units = usage.cost,
          .overspent = (usage.overspent >> i & 1) != 0 ? usage.cost : 0,
          .mode = route.overspend ? route.overspend->mode : policy::OverspendMode::bill,
          .outage = usage.outage,
          .at = usage.at,
          .window_start = Instant{Nanos(window.start_ns)},
          .window = Nanos(window.end_ns - window.start_ns)};
      if (events_[count_].overspent > 0 && events_[count_].mode == policy::OverspendMode::cap)
        notes_.push_back(note_of_overspend(counter, events_[count_]));
      ++count_;
    }
    if (plan.marks > 0) notes_.push_back(note_of_request(plan, usage));
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  std::span<const ledger::UsageEvent> view() const { return {events_.data(), count_}; }
  std::vector<ledger::Note> take_notes() { return std::move(notes_); }

 private:
  std::array<std::string, kMaxRules> tenants_;
  std::array<ledger::UsageEvent, kMaxRules> events_;
  std::size_t count_ = 0;
  std::vector<ledger::Note> notes_;
};

Result<std::unique_ptr<UsageRecorder>> UsageRecorder::open(const policy::JournalSpec& spec,
                                                           Clock& clock, render::Metrics& metrics,
                                                           Observer* observer) {
  std::unique_ptr<UsageRecorder> recorder(new UsageRecorder(clock, metrics, observer));
  UsageRecorder* self = recorder.get();
  recorder->process_ = random_number();
  recorder->book_ = std::make_unique<ReservationBook>(clock);
  const auto tell = [observer](StoreEvent::Kind good, StoreEvent::Kind bad) {
    return [observer, good, bad](bool works, const std::string& why) {
      if (observer != nullptr) observer->on_store_event({.kind = works ? good : bad, .why = why});
    };
  };
  auto journal = ledger::Journal::open(
      {.folder = spec.folder,
       .max_bytes = spec.max_bytes,
       .max_waiting = policy::kMostWaiting,
       .within = spec.within,
       .changed = tell(StoreEvent::Kind::journal_works, StoreEvent::Kind::journal_fails),
       .meet = [self](ledger::JournalFile& file) { return self->meet(file); }});
  if (!journal) return journal.error();
  recorder->journal_ = std::move(*journal);
  recorder->book_->keep_in(*recorder->journal_);
  const std::string url =
      spec.ledger.empty() ? "sqlite:" + spec.folder + "/ledger.db" : spec.ledger;
  ledger::Settler::Options settling;
  settling.changed = tell(StoreEvent::Kind::ledger_works, StoreEvent::Kind::ledger_fails);
  settling.stop = std::make_shared<std::atomic<bool>>(false);
  recorder->settler_ = std::make_unique<ledger::Settler>(
      *recorder->journal_,
      [url, stop = settling.stop] { return ledger::open_ledger(url, {.stop = stop}); }, clock,
      settling);
  recorder->source_ =
      metrics.add_source([self](render::Exposition& out) { self->write_metrics(out); });
  return recorder;
}

Result<std::unique_ptr<UsageRecorder>> UsageRecorder::open_on(const Ground& ground,
                                                              const policy::JournalSpec& spec,
                                                              Clock& clock,
                                                              render::Metrics& metrics) {
  std::unique_ptr<UsageRecorder> recorder(
      new UsageRecorder(clock, metrics, nullptr, ground.wake_waits));
  UsageRecorder* self = recorder.get();
  recorder->process_ = ground.process;
  recorder->book_ = std::make_unique<ReservationBook>(clock);
  recorder->book_->be_driven(ground.process);
  auto journal =
      ledger::Journal::open({.folder = spec.folder,
                             .max_bytes = spec.max_bytes,
                             .within = spec.within,
                             .vfs = ground.vfs,
                             .log_pages = ground.log_pages,
                             .meet = [self](ledger::JournalFile& file) { return self->meet(file); },
                             .clock = &clock,
                             .wake = ground.wake,
                             .name = ground.journal});
  if (!journal) return journal.error();
  recorder->journal_ = std::move(*journal);
  recorder->book_->keep_in(*recorder->journal_);
  recorder->settler_ = std::make_unique<ledger::Settler>(
      *recorder->journal_, ground.open_ledger, clock,
      ledger::Settler::Options{.driven = true, .seed = ground.process});
  return recorder;
}

UsageRecorder::UsageRecorder(Clock& clock, render::Metrics& metrics, Observer* observer,
                             std::function<void(MonoTime)> wake_waits)
    : clock_(clock), metrics_(metrics), observer_(observer), waits_(clock, std::move(wake_waits)) {}

bool UsageRecorder::has_room() const {
  return journal_->has_room();
}

bool UsageRecorder::writable() const {
  return journal_->writable();
}

UsageRecorder::~UsageRecorder() {
  (void)close();
}

std::uint64_t UsageRecorder::close() noexcept {
  if (source_ != 0) metrics_.remove_source(std::exchange(source_, 0));
  if (book_) book_->stop();
  // What is confirmed is to be in the journal; but a ledger that holds its thread must not keep the
  // rest from being written.
  if (settler_) (void)settler_->stop(kLedgerPatience);
  const std::uint64_t lost = journal_ ? journal_->close() : 0;
  settler_.reset();
  waits_.stop();  // everybody was answered
  return lost;
}

void UsageRecorder::unserved(const std::string& reservation) {
  unserved_.fetch_add(1, std::memory_order_relaxed);
  if (!reservation.empty()) book_->drop(reservation);
}

bool UsageRecorder::knows_before() const {
  return journal_->met();
}

bool UsageRecorder::in_its_thread() const noexcept {
  return journal_->in_its_thread() || waits_.in_its_thread();
}

std::uint64_t UsageRecorder::metered(const Plan& plan) noexcept {
  if (plan.route->route->when_store_fails != FailurePolicy::settle) return 0;
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < plan.count; ++i) {
    if (plan.rules[i]->rule->meter && !plan.rules[i]->shadow) bits |= std::uint64_t{1} << i;
  }
  return bits;
}

// In the journal's thread, before it takes anything of this process.
Result<void> UsageRecorder::meet(ledger::JournalFile& file) {
  std::uint64_t damaged = 0;
  std::vector<ledger::Note> notes;
  auto read = file.read_notes([&](const ledger::Note& note) { notes.push_back(note); });
  if (!read) return read;
  std::sort(notes.begin(), notes.end(), [](const ledger::Note& one, const ledger::Note& other) {
    return one.until < other.until;
  });
  for (const ledger::Note& note : notes) damaged += restore(note) ? 0 : 1;
  unreadable_.fetch_add(damaged, std::memory_order_relaxed);
  if (damaged > 0 && observer_ != nullptr) {
    observer_->on_store_event({.kind = StoreEvent::Kind::fault,
                               .why = "journal: " + std::to_string(damaged) +
                                      " notes of earlier processes are damaged, and passed over"});
  }
  return {};
}

bool UsageRecorder::restore(const ledger::Note& note) {
  constexpr std::size_t kDigest = sizeof(ValueDigester::Digest);
  if (note.until < clock_.now()) return true;
  const char whose = note.id.empty() ? '\0' : note.id[0];
  if (whose == 'r') return book_->restore(note);
  if (whose == 'k' && note.id.size() == 1 + kDigest && note.body.size() >= kDigest &&
      note.body.size() - kDigest <= policy::KeyWriter::kMaxKeyBytes) {
    RequestName name;
    std::copy_n(note.id.data() + 1, kDigest, name.key.data());
    std::copy_n(note.body.data(), kDigest, name.asked.data());
    name.place = note.body.substr(kDigest);
    const auto rung = note.units >= 0 && note.units <= static_cast<std::int64_t>(Rung::fallback)
                          ? static_cast<Rung>(note.units)
                          : Rung::store;
    requests_.keep(name, rung, note.until - kIdempotencyMemory, false);
    if (rung != Rung::store) keep_untold(name);
    return true;
  }
  if (whose == 'o' && note.id.size() == 1 + 24 && note.units > 0) {
    restore_overspent({.counter = {number_at(note.id, 1), number_at(note.id, 9)},
                       .window = Instant{Nanos(static_cast<std::int64_t>(number_at(note.id, 17)))},
                       .units = static_cast<std::uint64_t>(note.units)});
    return true;
  }
  return false;
}

void UsageRecorder::restore_overspent(const Overspent& overspent) {
  std::lock_guard lock(mutex_);
  overspent_before_.push_back(overspent);
  if (hear_overspent_) hear_overspent_(overspent);
}

void UsageRecorder::hear_overspent(std::function<void(const Overspent&)> hear) {
  std::lock_guard lock(mutex_);
  hear_overspent_ = std::move(hear);
  for (const Overspent& overspent : overspent_before_) hear_overspent_(overspent);
}

void UsageRecorder::keep_untold(const RequestName& request) {
  std::lock_guard lock(mutex_);
  untold_.keep(request);
}

std::vector<RequestName> UsageRecorder::take_untold(std::size_t most) {
  std::lock_guard lock(mutex_);
  std::vector<RequestName> out = untold_.take(most);
  telling_.fetch_add(out.size(), std::memory_order_relaxed);
  return out;
}

bool UsageRecorder::follow(const Plan& plan, const Usage& usage) {
  Events events(plan, usage, process_, next_);
  if (!journal_->follow(events.view(), events.take_notes())) return false;
  if (plan.marks > 0) requests_.keep(plan.request, usage.rung, usage.at);
  return true;
}

void UsageRecorder::append(const Plan& plan, const Usage& usage,
                           std::function<void(Recorded)> done) {
  using What = Recorded::What;
  const bool named = plan.marks > 0;
  if (named) {
    const auto claim = requests_.claim(plan.request, usage.at, [done](std::optional<Rung> rung) {
      done(rung ? Recorded{What::replayed, *rung} : Recorded{What::no});
    });
    if (claim == IdempotencyTable::Claim::same) return;
    if (claim == IdempotencyTable::Claim::other) {
      done({What::conflict});
      return;
    }
  }
  Events events(plan, usage, process_, next_);
  journal_->append(events.view(), events.take_notes(),
                   [this, named, request = plan.request, rung = usage.rung, at = usage.at,
                    done = std::move(done)](const Result<void>& durable) {
                     if (named && durable) {
                       requests_.keep(request, rung, at);
                       keep_untold(request);
                     } else if (named) {
                       requests_.release(request);
                     }
                     done({durable ? What::yes : What::no, rung});
                   });
}

HeldReservation UsageRecorder::hold(const Plan& plan, const Usage& usage,
                                    const ReservationTerms& terms, const Decision* decision) {
  HeldReservation held{.reserved = usage.cost,
                       .terms = terms,
                       .expires = clock_.now() + terms.expire,
                       .events = {},
                       .charges = {}};
  const Events events(plan, usage, process_, next_);
  for (const ledger::UsageEvent& event : events.view()) {
    std::string body;
    if (ledger::encode(event, body)) held.events.push_back(std::move(body));
  }
  if (decision == nullptr) return held;
  const auto reports = decision->rules();
  for (std::size_t i = 0; i < plan.count && i < reports.size(); ++i) {
    const Charge& charge = reports[i].charge;
    if (charge.units == 0) continue;
    // A store that knows newer numbers charges, and takes the receipt, by those.
    const limit::Numbers& numbers = *plan.counters[i].numbers;
    const bool own = reports[i].limit == numbers.limit && reports[i].burst == numbers.burst;
    held.charges.push_back({.identity = charge.identity,
                            .stamp = charge.stamp,
                            .digest = {charge.key_hi, charge.key_lo},
                            .receipt = charge.receipt,
                            .interval_ns = own ? numbers.interval_ns : 0,
                            .metered = (usage.metered >> i & 1) != 0,
                            .shadow = plan.counters[i].shadow,
                            .key = std::string(plan.counters[i].key)});
  }
  return held;
}

void UsageRecorder::report(const Plan& plan, std::uint64_t units, Instant at,
                           std::function<void(bool)> done) {
  const Usage usage{.metered = metered(plan), .cost = units, .at = at};
  HeldReservation held = hold(plan, usage, {}, nullptr);
  held.reserved = 0;
  for (std::size_t i = 0; i < plan.count; ++i) {
    const store::Counter& counter = plan.counters[i];
    held.charges.push_back({.identity = counter.identity,
                            .stamp = counter.numbers->stamp,
                            .digest = counter.digest,
                            .receipt = {},
                            .metered = (usage.metered >> i & 1) != 0,
                            .shadow = counter.shadow,
                            .key = std::string(counter.key)});
  }
  book_->report(std::move(held), units, std::move(done));
}

void UsageRecorder::append_reservation(const Plan& plan, const Usage& usage,
                                       const ReservationTerms& terms, const Decision* decision,
                                       std::function<void(std::optional<std::string>)> done) {
  const std::string id = book_->new_id();
  HeldReservation held = hold(plan, usage, terms, decision);
  std::vector<ledger::Note> notes;
  notes.push_back(ReservationBook::note_of(id, held, clock_.now()));
  notes.back().stands = true;
  // What is served beyond the part is so from now on, whatever is settled in the end.
  Events beyond(plan, usage, process_, next_);
  for (ledger::Note& note : beyond.take_notes()) notes.push_back(std::move(note));
  journal_->append({}, std::move(notes),
                   [this, id, held = std::move(held),
                    done = std::move(done)](const Result<void>& durable) mutable {
                     if (durable) {
                       book_->open(id, std::move(held));
                     } else {
                       book_->give_back(held);
                     }
                     done(durable ? std::optional(id) : std::nullopt);
                   });
}

void UsageRecorder::write_metrics(render::Exposition& out) const {
  using Type = render::Exposition::Type;
  const ledger::JournalStatus journal = journal_->status();
  const ledger::SettlerStatus settler = settler_->status();
  out.family("weir_journal_events_total", Type::counter, "Usage events, by what became of them.");
  out.sample({{"state", "recorded"}}, journal.recorded);
  out.sample({{"state", "refused"}}, journal.refused);
  out.sample({{"state", "settled"}}, settler.settled);
  out.sample({{"state", "quarantined"}}, settler.rejected);
  out.family("weir_journal_unserved_total", Type::counter,
             "Calls whose usage was recorded too late: they were told that they are not served.");
  out.sample(unserved_.load(std::memory_order_relaxed));
  out.family("weir_journal_writable", Type::gauge, "Whether usage can be recorded.");
  out.sample(std::uint64_t{journal.writable ? 1U : 0U});
  out.family("weir_journal_failures_total", Type::counter,
             "Times that usage could be recorded no more.");
  out.sample(journal.failures);
  out.family("weir_journal_unsettled_events", Type::gauge,
             "Usage events in the journal that the ledger has not taken.");
  out.sample(journal.counts.unsettled);
  out.family("weir_journal_quarantined_events", Type::gauge,
             "Usage events in the journal that the ledger would not take.");
  out.sample(journal.counts.quarantined);
  out.family("weir_journal_oldest_unsettled_seconds", Type::gauge,
             "Age of the oldest usage event that the ledger has not taken; 0: none waits.");
  out.sample(journal.counts.oldest
                 ? std::max(Nanos(0), Nanos(clock_.now() - *journal.counts.oldest))
                 : Nanos(0));
  out.family("weir_journal_file_bytes", Type::gauge, "What the journal takes of its disk.");
  out.sample(journal.file_bytes);
  out.family("weir_reservations", Type::gauge, "Reservations that are not settled.");
  out.sample(std::uint64_t{book_->size()});
  out.family(
      "weir_journal_unreadable_notes_total", Type::counter,
      "Notes of earlier processes that are damaged: reservations, idempotency keys, overspend.");
  out.sample(unreadable_.load(std::memory_order_relaxed));
  out.family("weir_journal_unsettled_bytes", Type::gauge,
             "Bytes of usage events that the ledger has not taken, quarantined ones included, and "
             "of reservations that stand.");
  out.sample(journal.counts.unsettled_bytes + journal.counts.quarantined_bytes +
             journal.counts.standing_bytes);
  out.family("weir_journal_max_bytes", Type::gauge,
             "Most bytes of such events: metered calls are refused beyond it.");
  out.sample(journal_->options().max_bytes);
  out.family(
      "weir_reservation_returns", Type::gauge,
      "Settled reservations whose limits have still to get back the rest, or count the overdraft.");
  out.sample(std::uint64_t{book_->returns()});
  out.family("weir_reservation_returns_lost_total", Type::counter,
             "Those that it was given up of.");
  out.sample(book_->returns_lost());
  out.family("weir_ledger_answering", Type::gauge, "Whether the ledger takes usage events.");
  out.sample(std::uint64_t{settler.working ? 1U : 0U});
}

std::string UsageRecorder::state_json() const {
  const ledger::JournalStatus journal = journal_->status();
  const ledger::SettlerStatus settler = settler_->status();
  std::string out = std::string("{\"writable\":") + (journal.writable ? "true" : "false");
  const auto text = [&out](std::string_view name, const std::string& value) {
    if (value.empty()) return;
    out.append(",\"").append(name).append("\":");
    render::append_json_string(out, value);
  };
  const auto number = [&out](std::string_view name, std::uint64_t value) {
    out.append(",\"").append(name).append("\":");
    render::append_number(out, value);
  };
  text("why_not_writable", journal.why);
  number("unsettled", journal.counts.unsettled);
  number("unsettled_bytes", journal.counts.unsettled_bytes);
  number("quarantined", journal.counts.quarantined);
  number("waiting", journal.waiting);
  number("max_waiting", journal_->options().max_waiting);
  number("reservations", book_->size());
  {
    std::lock_guard lock(mutex_);
    number("untold_keys", untold_.size() + telling_.load(std::memory_order_relaxed));
  }
  number("max_bytes", journal_->options().max_bytes);
  number("file_bytes", journal.file_bytes);
  out += std::string(",\"ledger_answering\":") + (settler.working ? "true" : "false");
  text("why_ledger_silent", settler.why);
  return out + "}";
}

}  // namespace weir::guard
