#include "guard/usage_recorder.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/key_digest.h"
#include "ledger/event_batch.h"
#include "ledger/journal.h"
#include "ledger/journal_reader.h"
#include "ledger/ledger.h"
#include "ledger/settler.h"
#include "limit/step.h"
#include "policy/key.h"
#include "render/text.h"

namespace weir::guard {
namespace {

constexpr std::string_view kHex = "0123456789abcdef";

std::uint64_t random_number() {
  const KeyHasher::Secret secret = KeyHasher::random_secret();
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < 8; ++i) number = number << 8 | secret[i];
  return number;
}

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
// epoch on.
Instant window_start(const limit::Numbers& numbers, Instant at) {
  const std::int64_t now = at.time_since_epoch().count();
  if (numbers.algorithm == Algorithm::fixed_window)
    return Instant{Nanos(limit::window_at(numbers, at).start_ns)};
  return Instant{Nanos(now - now % numbers.period_ns)};
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

ledger::Note note_of_request(const Plan& plan, const UsageRecorder::Usage& usage) {
  return {.id = "k" + std::string(bytes_of(plan.request.key)),
          .at = usage.at,
          .until = usage.at + kIdempotencyMemory,
          .units = static_cast<std::int64_t>(usage.rung),
          .body = std::string(bytes_of(plan.request.asked))};
}

ledger::Note note_of_overspend(const store::Counter& counter, const ledger::UsageEvent& event) {
  std::string id = "o";
  put(id, counter.digest.hi);
  put(id, counter.digest.lo);
  put(id, static_cast<std::uint64_t>(event.window_start.time_since_epoch().count()));
  return {.id = std::move(id),
          .at = event.at,
          .until = event.window_start + event.window,
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
          .window_start = window_start(*counter.numbers, usage.at),
          .window = Nanos(counter.numbers->period_ns)};
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
  std::unique_ptr<UsageRecorder> recorder(new UsageRecorder(clock, metrics));
  const auto tell = [observer](StoreEvent::Kind good, StoreEvent::Kind bad) {
    return [observer, good, bad](bool works, const std::string& why) {
      if (observer != nullptr) observer->on_store_event({.kind = works ? good : bad, .why = why});
    };
  };
  auto journal = ledger::Journal::open(
      {.folder = spec.folder,
       .max_bytes = spec.max_bytes,
       .within = spec.within,
       .changed = tell(StoreEvent::Kind::journal_works, StoreEvent::Kind::journal_fails)});
  if (!journal) return journal.error();
  recorder->process_ = random_number();
  recorder->journal_ = std::move(*journal);
  recorder->book_ = std::make_unique<ReservationBook>(*recorder->journal_, clock);
  recorder->read_notes();
  const std::string url =
      spec.ledger.empty() ? "sqlite:" + spec.folder + "/ledger.db" : spec.ledger;
  ledger::Settler::Options settling;
  settling.changed = tell(StoreEvent::Kind::ledger_works, StoreEvent::Kind::ledger_fails);
  recorder->settler_ = std::make_unique<ledger::Settler>(
      *recorder->journal_, [url] { return ledger::open_ledger(url); }, clock, std::move(settling));
  UsageRecorder* self = recorder.get();
  recorder->source_ =
      metrics.add_source([self](render::Exposition& out) { self->write_metrics(out); });
  return recorder;
}

Result<std::unique_ptr<UsageRecorder>> UsageRecorder::open_on(const Ground& ground,
                                                              const policy::JournalSpec& spec,
                                                              Clock& clock,
                                                              render::Metrics& metrics) {
  std::unique_ptr<UsageRecorder> recorder(new UsageRecorder(clock, metrics));
  auto journal = ledger::Journal::open({.folder = spec.folder,
                                        .max_bytes = spec.max_bytes,
                                        .within = spec.within,
                                        .vfs = ground.vfs,
                                        .log_pages = ground.log_pages,
                                        .clock = &clock,
                                        .wake = ground.wake,
                                        .name = ground.journal});
  if (!journal) return journal.error();
  recorder->process_ = ground.process;
  recorder->journal_ = std::move(*journal);
  recorder->book_ = std::make_unique<ReservationBook>(*recorder->journal_, clock);
  recorder->read_notes();
  recorder->settler_ = std::make_unique<ledger::Settler>(
      *recorder->journal_, ground.open_ledger, clock,
      ledger::Settler::Options{.driven = true, .seed = ground.process});
  return recorder;
}

UsageRecorder::UsageRecorder(Clock& clock, render::Metrics& metrics)
    : clock_(clock), metrics_(metrics) {}

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
  settler_.reset();
  return journal_ ? journal_->close() : 0;
}

bool UsageRecorder::in_its_thread() const noexcept {
  return journal_->in_its_thread();
}

std::uint64_t UsageRecorder::metered(const Plan& plan) noexcept {
  if (plan.route->route->when_store_fails != FailurePolicy::settle) return 0;
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < plan.count; ++i) {
    if (plan.rules[i]->rule->meter && !plan.rules[i]->shadow) bits |= std::uint64_t{1} << i;
  }
  return bits;
}

// A journal that cannot be read now knows nothing: what it says is asked for once, at the start.
void UsageRecorder::read_notes() {
  const ledger::Journal::Options& where = journal_->options();
  auto reader = ledger::JournalReader::open(ledger::Journal::file_in(where.folder, where.vfs));
  if (!reader) return;
  const Instant now = clock_.now();
  (void)reader->notes([&](const ledger::Note& note) {
    constexpr std::size_t kDigest = sizeof(ValueDigester::Digest);
    if (note.id.empty() || note.until < now) return;
    if (note.id[0] == 'r') {
      book_->restore(note);
    } else if (note.id[0] == 'k' && note.id.size() == 1 + kDigest && note.body.size() == kDigest) {
      RequestName name;
      std::copy_n(note.id.data() + 1, kDigest, name.key.data());
      std::copy_n(note.body.data(), kDigest, name.asked.data());
      const auto rung = note.units >= 0 && note.units <= static_cast<std::int64_t>(Rung::fallback)
                            ? static_cast<Rung>(note.units)
                            : Rung::store;
      requests_.keep(name, rung, note.until - kIdempotencyMemory, false);
    } else if (note.id[0] == 'o' && note.id.size() == 1 + 24 && note.units > 0) {
      overspent_before_.push_back(
          {.counter = {number_at(note.id, 1), number_at(note.id, 9)},
           .window = Instant{Nanos(static_cast<std::int64_t>(number_at(note.id, 17)))},
           .units = static_cast<std::uint64_t>(note.units)});
    }
  });
}

bool UsageRecorder::follow(const Plan& plan, const Usage& usage) {
  Events events(plan, usage, process_, next_);
  if (!journal_->follow(events.view(), events.take_notes())) return false;
  if (plan.marks > 0) requests_.keep(plan.request, usage.rung, usage.at);
  return true;
}

void UsageRecorder::append(const Plan& plan, const Usage& usage, std::function<void(bool)> done) {
  Events events(plan, usage, process_, next_);
  journal_->append(events.view(), events.take_notes(),
                   [this, named = plan.marks > 0, request = plan.request, rung = usage.rung,
                    at = usage.at, done = std::move(done)](const Result<void>& durable) {
                     if (durable && named) requests_.keep(request, rung, at);
                     done(durable.has_value());
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
    held.charges.push_back({.identity = charge.identity,
                            .stamp = charge.stamp,
                            .digest = {charge.key_hi, charge.key_lo},
                            .receipt = charge.receipt,
                            .metered = (usage.metered >> i & 1) != 0,
                            .shadow = plan.counters[i].shadow,
                            .key = std::string(plan.counters[i].key)});
  }
  return held;
}

std::optional<std::string> UsageRecorder::follow_reservation(const Plan& plan, const Usage& usage,
                                                             const ReservationTerms& terms,
                                                             const Decision& decision) {
  const std::string id = ReservationBook::new_id();
  HeldReservation held = hold(plan, usage, terms, &decision);
  std::vector<ledger::Note> notes;
  notes.push_back(ReservationBook::note_of(id, held, clock_.now()));
  if (!journal_->follow({}, std::move(notes))) return std::nullopt;
  book_->open(id, std::move(held));
  return id;
}

void UsageRecorder::append_reservation(const Plan& plan, const Usage& usage,
                                       const ReservationTerms& terms,
                                       std::function<void(std::optional<std::string>)> done) {
  const std::string id = ReservationBook::new_id();
  HeldReservation held = hold(plan, usage, terms, nullptr);
  std::vector<ledger::Note> notes;
  notes.push_back(ReservationBook::note_of(id, held, clock_.now()));
  // What is served beyond the part is so from now on, whatever is settled in the end.
  Events beyond(plan, usage, process_, next_);
  for (ledger::Note& note : beyond.take_notes()) notes.push_back(std::move(note));
  journal_->append({}, std::move(notes),
                   [this, id, held = std::move(held),
                    done = std::move(done)](const Result<void>& durable) mutable {
                     if (durable) book_->open(id, std::move(held));
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
  number("reservations", book_->size());
  number("max_bytes", journal_->options().max_bytes);
  number("file_bytes", journal.file_bytes);
  out += std::string(",\"ledger_answering\":") + (settler.working ? "true" : "false");
  text("why_ledger_silent", settler.why);
  return out + "}";
}

}  // namespace weir::guard
