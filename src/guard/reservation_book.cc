#include "guard/reservation_book.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "base/key_digest.h"
#include "ledger/event_batch.h"
#include "weir/limits.h"

namespace weir::guard {
namespace {

constexpr Nanos kLookEvery = std::chrono::seconds(1);
// One that ended is known for so long, for who did not hear of it.
constexpr Nanos kMemory = std::chrono::hours(24);
// Of ended ones; the journal's notes know them longer.
constexpr std::size_t kMostEnded = 65'536;
// Given back at once, to a store that took the last one; before that, one.
constexpr std::size_t kReturnsAtOnce = 512;

std::string words(std::uint64_t units) {
  return std::to_string(units) + (units == 1 ? " unit" : " units");
}

Settlement settlement_of(const HeldReservation& held, bool repeated) {
  return {.reserved = held.reserved,
          .units = held.units,
          .overdraft = held.units > held.reserved ? held.units - held.reserved : 0,
          .repeated = repeated};
}

Error ended_otherwise(const HeldReservation& held) {
  return {ErrorCode::failed_precondition, std::string("reservation: it ") +
                                              (held.expired ? "expired, and was" : "was") +
                                              " settled as " + words(held.units)};
}

// The events of what was reserved, of what it came to; they point into `bodies`.
std::vector<ledger::UsageEvent> events_of(const std::vector<std::string>& bodies,
                                          std::uint64_t units, std::uint64_t overspent,
                                          Result<void>& sound) {
  std::vector<ledger::UsageEvent> events;
  for (const std::string& body : bodies) {
    auto event = ledger::decode(body);
    if (!event) sound = event.error();
    if (!event || units == 0) continue;
    event->units = units;
    event->overspent = std::min(units, event->overspent + overspent);
    events.push_back(*event);
  }
  return events;
}

}  // namespace

// The journal may be gone before it: what is dropped was given to that by stop().
ReservationBook::~ReservationBook() {
  end_thread();
}

void ReservationBook::start(Limits limits) {
  limits_ = std::move(limits);
  if (!driven_by_) thread_ = std::thread([this] { run(); });
}

void ReservationBook::stop() noexcept {
  end_thread();
  keep_dropped();
}

void ReservationBook::end_thread() noexcept {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ReservationBook::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    (void)turn();
    lock.lock();
    changed_.wait_for(lock, kLookEvery, [&] { return stopping_ || more_returns_; });
    more_returns_ = false;
  }
}

Nanos ReservationBook::turn() {
  if (journal_ != nullptr) journal_->look();
  end_expired();
  if (limits_.now_and_then) limits_.now_and_then();
  give_back_again();
  return kLookEvery;
}

// The journal keeps what nobody waits for until its disk takes it, or until it is closed.
void ReservationBook::keep_dropped() noexcept {
  std::lock_guard lock(mutex_);
  if (journal_ == nullptr) return;
  const Instant now = clock_.now();
  for (auto& [id, entry] : entries_) {
    if (!entry.dropped || entry.settling || entry.held.settled) continue;
    HeldReservation ended = entry.held;
    ended.settled = true;
    ended.events.clear();
    ended.charges.clear();
    std::vector<ledger::Note> notes;
    notes.push_back(note_of(id, ended, now));
    if (!journal_->follow({}, std::move(notes))) continue;
    entry.held = std::move(ended);
    --open_;
  }
}

std::string ReservationBook::new_id() {
  constexpr std::string_view kHex = "0123456789abcdef";
  KeyHasher::Secret bytes{};
  if (driven_by_) {
    std::lock_guard lock(mutex_);
    ++named_;
    for (std::size_t i = 0; i < 8; ++i) {
      bytes[i] = static_cast<unsigned char>(*driven_by_ >> (8 * i));
      bytes[8 + i] = static_cast<unsigned char>(named_ >> (8 * i));
    }
  } else {
    bytes = KeyHasher::random_secret();
  }
  std::string id;
  for (const unsigned char byte : bytes) {
    id.push_back(kHex[byte >> 4]);
    id.push_back(kHex[byte & 15]);
  }
  return id;
}

ledger::Note ReservationBook::note_of(const std::string& id, const HeldReservation& held,
                                      Instant now) {
  // One that stands is never forgotten by the way: it has to be ended.
  const Instant until = held.settled ? now + kMemory : ledger::kStands;
  return {.id = "r" + id, .at = now, .until = until, .units = 0, .body = encode(held)};
}

bool ReservationBook::restore(const ledger::Note& note) {
  auto held = decode_reservation(note.body);
  if (!held) return false;
  for (const std::string& event : held->events) {
    if (!ledger::decode(event)) return false;
  }
  const bool stands = !held->settled;
  const MonoTime until =
      stands ? after(held->expires, held->terms.expire) : after(note.until, kMemory);
  std::lock_guard lock(mutex_);
  const auto [entry, fresh] =
      entries_.emplace(note.id.substr(1), Entry{.held = std::move(*held), .until = until});
  if (fresh && stands) ++open_;
  return true;
}

bool ReservationBook::has_room() const {
  std::lock_guard lock(mutex_);
  return open_ < kMaxReservations;
}

void ReservationBook::open(const std::string& id, HeldReservation held) {
  const MonoTime until = after(held.expires, held.terms.expire);
  std::lock_guard lock(mutex_);
  ++open_;
  entries_.emplace(id, Entry{.held = std::move(held), .until = until});
}

void ReservationBook::give_back(const HeldReservation& held) {
  if (limits_.give_back && !held.charges.empty())
    give_back(Return{.id = new_id(), .held = held, .units = held.reserved, .sent = {}});
}

// What an earlier process reserved is not known before its journal was read.
Error ReservationBook::not_known() const {
  if (!journal_->met())
    return {ErrorCode::unavailable, "reservation: the journal could not be read yet"};
  return {ErrorCode::not_found,
          "reservation: this worker has none of that name; the one that gave it settles it"};
}

std::size_t ReservationBook::size() const {
  std::lock_guard lock(mutex_);
  return open_;
}

std::size_t ReservationBook::overdue() const {
  const MonoTime now = clock_.mono();
  std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::count_if(
      entries_.begin(), entries_.end(), [now](const auto& each) { return each.second.due(now); }));
}

MonoTime ReservationBook::after(Instant end, Nanos most) const {
  const Instant now = clock_.now();
  const Nanos left = end > now ? Nanos(end - now) : Nanos{0};
  return clock_.mono() + std::min(left, std::clamp(most, Nanos{0}, kMemory));
}

void ReservationBook::end_expired() {
  const MonoTime now = clock_.mono();
  struct Ended {
    std::string id;
    std::uint64_t units = 0;
    bool expired = true;
  };
  std::vector<Ended> ended;
  {
    std::lock_guard lock(mutex_);
    const bool crowded = entries_.size() - open_ > kMostEnded;
    std::erase_if(entries_, [&](const auto& each) {
      return each.second.held.settled && (crowded || each.second.until <= now);
    });
    for (const auto& [id, entry] : entries_) {
      const HeldReservation& held = entry.held;
      if (!entry.due(now) || entry.settling) continue;
      if (entry.dropped) {
        ended.push_back({.id = id, .units = 0, .expired = false});
        continue;
      }
      const OnExpiry how = held.terms.on_expiry.value_or(OnExpiry::full);
      ended.push_back({.id = id,
                       .units = how == OnExpiry::full             ? held.reserved
                                : how == OnExpiry::last_heartbeat ? held.so_far
                                                                  : 0});
    }
  }
  for (const auto& [id, units, expired] : ended)
    begin_settling(id, units, expired, [](const Result<Settlement>&) {});
}

void ReservationBook::drop(const std::string& id) {
  {
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(id);
    if (found == entries_.end() || found->second.held.settled) return;
    found->second.dropped = true;
  }
  begin_settling(id, 0, false, [](const Result<Settlement>&) {});
}

void ReservationBook::settle(std::string_view id, std::uint64_t units, Done done) {
  if (units > kMaxUnits) {
    done(Error{ErrorCode::invalid_argument, "reservation: " + words(units) +
                                                ", and no call has more than " +
                                                std::to_string(kMaxUnits)});
    return;
  }
  begin_settling(std::string(id), units, false, std::move(done));
}

void ReservationBook::begin_settling(const std::string& id, std::uint64_t units, bool expired,
                                     Done done) {
  std::optional<Result<Settlement>> known;
  HeldReservation held;
  std::uint64_t more = 0;
  {
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(id);
    if (found == entries_.end()) {
      known = not_known();
    } else if (found->second.held.settled) {
      const HeldReservation& ended = found->second.held;
      if (ended.units == units)
        known = settlement_of(ended, true);
      else
        known = ended_otherwise(ended);
    } else if (found->second.settling) {
      known = Error{ErrorCode::unavailable, "reservation: it is being settled this moment"};
    } else {
      Entry& entry = found->second;
      entry.settling = true;
      held = entry.held;
      // Of an earlier try's units nothing is asked again.
      const std::uint64_t had = held.reserved + entry.asked;
      if (units > had && !held.charges.empty()) {
        more = units - had;
        held.asked_as = id + "+" + std::to_string(entry.asked);
        held.asked_at = clock_.now();
      }
    }
  }
  if (known) {
    done(*known);
    return;
  }
  if (more == 0) {
    record(id, std::move(held), units, expired, std::move(done));
    return;
  }
  const MonoTime now = clock_.mono();
  limits_.take(
      held, more, [this, id, held, units, more, expired, done, now](const Taken& taken) mutable {
        std::optional<MonoTime> sent;
        if (taken.how == GivenBack::unknown) sent = now;
        took(id, {.id = id, .held = held, .units = more, .sent = sent, .takes = true}, taken);
        record(id, std::move(held), units, expired, std::move(done));
      });
}

void ReservationBook::took(const std::string& id, Return asked, const Taken& taken) {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  entry.asked += asked.units;
  entry.taken.units += std::min(asked.units, taken.units);
  entry.taken.charged += std::min(asked.units, taken.charged);
  if (taken.how != GivenBack::yes) entry.owed.push_back(std::move(asked));
}

void ReservationBook::record(const std::string& id, HeldReservation held, std::uint64_t units,
                             bool expired, Done done) {
  const Instant now = clock_.now();
  std::uint64_t had = held.reserved;
  std::uint64_t charged = held.reserved;
  {
    std::lock_guard lock(mutex_);
    if (const auto found = entries_.find(id); found != entries_.end()) {
      had += found->second.taken.units;
      charged += found->second.taken.charged;
    }
  }
  // Nothing could be taken of limits that nobody can give back to, and nothing was overspent there.
  const std::uint64_t overspent = held.charges.empty() || units <= had ? 0 : units - had;
  const std::vector<std::string> bodies = held.events;  // what the events point to
  Result<void> sound;
  const auto events = events_of(bodies, units, overspent, sound);
  held.settled = true;
  held.expired = expired;
  held.units = units;
  held.events.clear();
  if (!sound) {
    settled(id, held, charged, sound, done);
    return;
  }
  std::vector<HeldReservation::Charge> charges = std::exchange(held.charges, {});
  ledger::Note note = note_of(id, held, now);
  held.charges = std::move(charges);  // what is to be given back
  std::vector<ledger::Note> notes;
  notes.push_back(std::move(note));
  journal_->append(events, std::move(notes),
                   [this, id, held = std::move(held), charged, done](const Result<void>& durable) {
                     settled(id, held, charged, durable, done);
                   });
}

void ReservationBook::settled(const std::string& id, const HeldReservation& held,
                              std::uint64_t charged, const Result<void>& durable,
                              const Done& done) {
  {
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(id);
    if (found != entries_.end()) {
      found->second.settling = false;
      if (durable) {
        --open_;
        keep_owed(std::exchange(found->second.owed, {}), held.reserved + found->second.asked,
                  held.units);
        found->second.held = held;
        found->second.held.charges.clear();
        found->second.until = clock_.mono() + kMemory;
      }
    }
  }
  if (!durable) {
    done(Error{ErrorCode::unavailable,
               "reservation: it cannot be recorded now, and stands: " + durable.error().message});
    return;
  }
  if (held.units < charged && !held.charges.empty())
    give_back(Return{.id = id, .held = held, .units = charged - held.units, .sent = {}});
  done(settlement_of(held, false));
}

void ReservationBook::report(HeldReservation held, std::uint64_t units,
                             std::function<void(bool kept)> done) {
  limits_.take(held, units, [this, held, units, done = std::move(done)](const Taken& taken) {
    const std::uint64_t overspent = units - std::min(units, taken.units);
    Result<void> sound;
    const auto events = events_of(held.events, units, overspent, sound);
    journal_->append(events, {}, [=, this](const Result<void>& durable) {
      if (durable) return done(true);
      // The work is over: nobody can be refused it any more.
      Result<void> ignored;
      done(journal_->follow(events_of(held.events, units, overspent, ignored)));
    });
  });
}

void ReservationBook::give_back(Return what) {
  {
    std::lock_guard lock(mutex_);
    ++returning_;
  }
  send_back(std::move(what));
}

void ReservationBook::send_back(Return what) {
  const MonoTime now = clock_.mono();
  const auto back = std::make_shared<Return>(std::move(what));
  if (back->takes) {
    limits_.take(back->held, back->units, [this, back, now](const Taken& taken) {
      sent_back(std::move(*back), now, taken.how);
    });
    return;
  }
  limits_.give_back(back->id, back->held, back->units,
                    [this, back, now](GivenBack how) { sent_back(std::move(*back), now, how); });
}

// Under the lock. Settled lower than what was asked for before, it owes less; what a store may have
// taken already is all or nothing.
void ReservationBook::keep_owed(std::vector<Return> owed, std::uint64_t asked,
                                std::uint64_t units) {
  std::uint64_t above = asked - std::min(asked, units);
  for (Return& each : owed) {
    const std::uint64_t less = each.sent ? 0 : std::min(above, each.units);
    each.units -= less;
    above -= less;
    if (each.sent && above > 0) {
      ++returns_lost_;
    } else if (each.units > 0) {
      keep_return(std::move(each));
    }
  }
}

// Under the lock.
void ReservationBook::keep_return(Return what) {
  if (returns_.size() < kMostReturns)
    returns_.push_back(std::move(what));
  else
    ++returns_lost_;
}

void ReservationBook::sent_back(Return what, MonoTime at, GivenBack how) {
  bool go_on = false;
  {
    std::lock_guard lock(mutex_);
    --returning_;
    store_takes_ = how == GivenBack::yes || how == GivenBack::in_part;
    if (how == GivenBack::in_part) ++returns_lost_;
    if (how == GivenBack::unknown && !what.sent) what.sent = at;
    if (!store_takes_) keep_return(std::move(what));
    go_on = store_takes_ && returning_ == 0 && !returns_.empty();
    more_returns_ = more_returns_ || go_on;
  }
  if (go_on) changed_.notify_all();
}

void ReservationBook::give_back_again() {
  std::vector<Return> batch;
  {
    std::lock_guard lock(mutex_);
    const MonoTime now = clock_.mono();
    // A fifth less than the store remembers, so that its clock and ours may differ.
    returns_lost_ += std::erase_if(returns_, [now](const Return& each) {
      return each.sent && now - *each.sent > kReturnMemory * 4 / 5;
    });
    if (returning_ > 0) return;
    std::size_t most = store_takes_ ? kReturnsAtOnce : 1;
    while (most-- > 0 && !returns_.empty()) {
      batch.push_back(std::move(returns_.front()));
      returns_.pop_front();
    }
    returning_ += batch.size();
  }
  for (Return& each : batch) send_back(std::move(each));
}

std::size_t ReservationBook::returns() const {
  std::lock_guard lock(mutex_);
  return returns_.size() + returning_;
}

std::uint64_t ReservationBook::returns_lost() const {
  std::lock_guard lock(mutex_);
  return returns_lost_;
}

Result<Nanos> ReservationBook::heartbeat(std::string_view id, std::uint64_t so_far) {
  if (so_far > kMaxUnits)
    return Error{ErrorCode::invalid_argument, "reservation: no call has " + words(so_far)};
  const Instant now = clock_.now();
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(std::string(id));
  if (found == entries_.end()) return not_known();
  HeldReservation& held = found->second.held;
  if (held.settled) return ended_otherwise(held);
  HeldReservation later = held;
  later.so_far = so_far;
  later.expires = now + held.terms.expire;
  std::vector<ledger::Note> notes;
  notes.push_back(note_of(std::string(id), later, now));
  // Settling meanwhile: the journal would be told of an end, and then of a life.
  if (found->second.settling || !journal_->follow({}, std::move(notes)))
    return Error{ErrorCode::unavailable, "reservation: the heartbeat cannot be kept now"};
  held = std::move(later);
  found->second.until = clock_.mono() + held.terms.expire;
  return held.terms.expire;
}

}  // namespace weir::guard
