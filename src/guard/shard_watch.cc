// What a ShardDriver hears of its server, and the turns of its breaker.

#include <algorithm>
#include <string>
#include <utility>

#include "base/key_digest.h"
#include "guard/shard_driver.h"
#include "limit/client_skew.h"

namespace weir::guard {

namespace redis = store::redis;
using breaker::ProbeBreaker;

namespace {

// Without a connection for so long the store is away, though nobody asks it: attempts to connect
// come every two seconds at the least, and beats find out one that hangs.
constexpr Nanos kAwayAfter = std::chrono::seconds(2);

// Tells the data of one store from what it holds after it has lost them, or may have: after its
// process ended, or when its epoch is gone.
std::uint64_t origin_of(const redis::StoreReport& report) {
  static const KeyHasher hasher(
      KeyHasher::Secret{'w', 'e', 'i', 'r', ' ', 'o', 'r', 'i', 'g', 'i', 'n'});
  return hasher(report.run_id + " " + report.epoch).lo;
}

// Where there was no connection to ask on, why there was none says more.
std::string why_away(const redis::ErrorRow* last, const std::string& trouble) {
  if (last == nullptr) return "slow calls";
  const bool unconnected = last == &redis::row_of(redis::LocalFault::not_connected);
  return unconnected && !trouble.empty() ? trouble : redis::told(*last, {});
}

}  // namespace

void ShardDriver::on_vote(const redis::Vote& vote) {
  const MonoTime now = clock_.mono();
  if (vote.failed) {
    if (vote.error != nullptr && vote.error != &redis::row_of(redis::LocalFault::not_connected)) {
      std::lock_guard lock(connection_mutex_);
      connection_.last_error = vote.error->meaning;
      connection_.last_error_at = now;
    }
    changed(ladder_.breaker().on_failure(vote.generation, vote.latency, now), vote.error);
    return;
  }
  note_store_time(now);
  counters_.count_answer(vote.latency);
  at_last_answer_ = elsewhere_so_far();
  rtt_ns_.store(vote.latency.count(), std::memory_order_relaxed);
  changed(ladder_.breaker().on_answer(vote.generation, vote.latency, now), nullptr);
}

void ShardDriver::on_late(const redis::LateReply& late) {
  if ((late.token & GiveBacks::kTokens) != 0) {
    give_backs_.on_late(late);
    return;
  }
  const Flight& flight = *flights_[late.token];
  learn(late.counters, late.answer);
  settle_told(flight, late.counters);
  take_back(flight, late.counters, late.answer);
  free_flight(late.token);
}

void ShardDriver::on_lost(std::uint64_t token) {
  if ((token & GiveBacks::kTokens) != 0) {
    give_backs_.on_lost(token);
  } else {
    free_flight(token);
  }
}

void ShardDriver::on_report(const redis::StoreReport& report) {
  note_store_time(clock_.mono());
  for (const redis::StoreFault& fault : report.faults) {
    tell({.kind = StoreEvent::Kind::fault, .why = fault.text});
  }
  {
    std::lock_guard lock(connection_mutex_);
    connection_.version = report.version;
    if (report.fatal()) return;
    if (!std::exchange(connection_.up, true)) connection_.since = clock_.mono();
    connection_.trouble.clear();
  }
  unconnected_.reset();
  back_if_quiet();
  at_last_answer_ = elsewhere_so_far();
  note_origin(report);
  host_.connection_changed();
}

// A shard whose own keys are in another slot has another epoch key: that says nothing of the data,
// as long as it is the same process that holds them.
void ShardDriver::note_origin(const redis::StoreReport& report) {
  const bool same_process = seen_ && !report.run_id.empty() && report.run_id == seen_->run_id;
  const bool moved = same_process && report.shard != seen_->shard;
  const bool same = same_process && report.shard == seen_->shard && report.epoch == seen_->epoch;
  seen_ = Seen{report.run_id, report.epoch, report.shard};
  if (same) return;
  const std::uint64_t origin = origin_of(report);
  seat_.set_origin(origin);  // the list of workers lies beside the shard's own keys
  if (!moved) ladder_.known().set_origin(origin);
}

void ShardDriver::on_disconnected(const redis::ErrorRow& why, std::string_view text) {
  counters_.count_error(why);
  {
    std::lock_guard lock(connection_mutex_);
    connection_.up = false;
    connection_.last_error_at = clock_.mono();
    if (!unconnected_) connection_.since = connection_.last_error_at;
    connection_.trouble = redis::told(why, text);
    connection_.last_error = connection_.trouble;
  }
  if (!unconnected_) unconnected_ = clock_.mono();
  away_if_quiet();
  seat_.store_away();
  host_.connection_changed();
}

void ShardDriver::name_shard(std::string shard) {
  client_.name_shard(std::move(shard));
  if (client_.ready()) look_at_epoch();
}

void ShardDriver::try_names(std::vector<policy::NameTrial> names) {
  client_.try_names(std::move(names));
  if (client_.ready()) look_at_epoch();
}

void ShardDriver::on_elsewhere() {
  ladder_.breaker().hasten(clock_.mono());
  arm();
}

void ShardDriver::changed(ProbeBreaker::Change change, const redis::ErrorRow* why) {
  using Change = ProbeBreaker::Change;
  switch (change) {
    case Change::none:
    case Change::stepped:
    case Change::fell_back:
      break;
    case Change::probing:
      probe();
      return;
    case Change::opened:
      counters_.count_opening();
      say_opened(why);
      client_.release_waiting();
      break;
    case Change::recovering:
      tell({.kind = StoreEvent::Kind::answers_again});
      break;
    case Change::closed:
      counters_.count_closing();
      say_back();
      seat_.store_there();
      if (std::exchange(look_when_closed_, false)) look_at_epoch();
      break;
  }
  arm();
}

// From the first opening on, however often it opens again before every key is back. The calls that
// opened it were decided without the store, too.
void ShardDriver::say_opened(const redis::ErrorRow* why) {
  const MonoTime now = clock_.mono();
  if (!away_.now) set_away(unconnected_.value_or(now), false);
  if (std::exchange(away_.said, false)) return;
  tell({.kind = StoreEvent::Kind::away,
        .why = why_away(why, connection().trouble),
        .next_probe = ladder_.breaker().until_probe(now).value_or(Nanos(0))});
}

// A server whose callers are few would say nothing of an outage that its breaker never hears of.
void ShardDriver::away_if_quiet() {
  if (away_.now || stopping_ || clock_.mono() - *unconnected_ < kAwayAfter) return;
  set_away(*unconnected_, true);
  tell({.kind = StoreEvent::Kind::away, .why = connection().trouble});
}

// There is a connection, and every key asks on it: nothing opened the breaker meanwhile.
void ShardDriver::back_if_quiet() {
  if (away_.now && ladder_.breaker().state() == breaker::ProbeState::closed) say_back();
}

// Whoever hears of it and looks finds it so.
void ShardDriver::say_back() {
  const StoreEvent back{.kind = StoreEvent::Kind::back,
                        .owed_units = ladder_.known().owed_units(moment().store),
                        .away_for = clock_.mono() - away_.since,
                        .decided_without = counters_.without() - away_.before.without,
                        .by_fallback = counters_.by_fallback() - away_.before.by_fallback};
  away_ = {};
  away_since_ns_.store(kNotAway, std::memory_order_relaxed);
  at_last_answer_ = elsewhere_so_far();
  tell(back);
}

void ShardDriver::set_away(MonoTime since, bool said) {
  away_ = {.now = true, .said = said, .since = since, .before = at_last_answer_};
  away_since_ns_.store(since.time_since_epoch().count(), std::memory_order_relaxed);
}

std::optional<Nanos> ShardDriver::away_for() const noexcept {
  const std::int64_t since = away_since_ns_.load(std::memory_order_relaxed);
  if (since == kNotAway) return std::nullopt;
  return std::max(clock_.mono().time_since_epoch() - Nanos(since), Nanos(0));
}

void ShardDriver::started_without() {
  set_away(unconnected_.value_or(clock_.mono()), false);
  seat_.started_without();
  if (connection().up) back_if_quiet();
}

void ShardDriver::arm() {
  std::optional<MonoTime> next = ladder_.breaker().next_event();
  const std::optional<MonoTime> beat = seat_.next_event();
  if (beat && (!next || *beat < *next)) next = beat;
  const std::optional<MonoTime> again = give_backs_.next_event();
  if (again && (!next || *again < *next)) next = again;
  if (!next || stopping_ || armed_ == next) return;
  armed_ = next;
  host_.wake_at(*next);
}

void ShardDriver::on_wake() {
  armed_.reset();
  if (stopping_) return;
  seat_.poll();
  give_backs_.go_on();
  changed(ladder_.breaker().poll(clock_.mono()), nullptr);
}

// The fleet's members are gone, and perhaps all the rest, or there are other names to be tried: the
// self-test reads the epoch again, and tries them.
void ShardDriver::look_at_epoch() {
  if (stopping_) return;
  // The breaker's own probe is the only one while it is not closed, and may have been sent before.
  look_when_closed_ = ladder_.breaker().state() != breaker::ProbeState::closed;
  if (look_when_closed_) return;
  client_.probe(options_.deadline, [](const redis::ErrorRow*, const redis::StoreReport*) {});
}

void ShardDriver::probe() {
  client_.probe(options_.deadline,
                [this](const redis::ErrorRow* error, const redis::StoreReport* report) {
                  if (stopping_) return;
                  const bool healthy = error == nullptr && report != nullptr && !report->fatal();
                  changed(ladder_.breaker().on_probe(healthy, clock_.mono()), error);
                });
}

void ShardDriver::tell(const StoreEvent& event) {
  if (observer_ != nullptr) observer_->on_store_event(event);
}

void ShardDriver::note_store_time(MonoTime now) {
  const redis::StoreClock& clock = client_.store_clock();
  if (!clock.known()) return;
  const Instant low = clock.earliest(now);
  const Instant middle = low + (clock.latest(now) - low) / 2;
  store_offset_ns_.store((middle.time_since_epoch() - now.time_since_epoch()).count(),
                         std::memory_order_relaxed);
  if (options_.client_clock) look_at_skew();
}

// The reply that did not fit has made the new time known already.
void ShardDriver::on_clock_set() {
  const MonoTime now = clock_.mono();
  const bool known = store_offset_ns_.load(std::memory_order_relaxed) != kUnknownOffset;
  const Instant before = store_time_at(now);
  note_store_time(now);
  tell({.kind = StoreEvent::Kind::clock_set,
        .moved = known ? store_time_at(now) - before : Nanos(0),
        .skew = store_time_at(now) - clock_.now()});
}

// Said once until they agree again.
void ShardDriver::look_at_skew() {
  const Nanos skew = store_time() - clock_.now();
  if (std::exchange(said_skew_, std::chrono::abs(skew) > Nanos(limit::kMostClientSkewNs))) return;
  if (!said_skew_) return;
  using std::chrono::milliseconds;
  const std::string off =
      std::to_string(std::chrono::duration_cast<milliseconds>(std::chrono::abs(skew)).count());
  const std::string most = std::to_string(
      std::chrono::duration_cast<milliseconds>(Nanos(limit::kMostClientSkewNs)).count());
  tell({.kind = StoreEvent::Kind::fault,
        .why = "this machine's clock is " + off + " ms " +
               (skew < Nanos(0) ? "ahead of" : "behind") +
               " the store's; `clock: client` follows it no further than " + most +
               " ms: synchronise both"});
}

}  // namespace weir::guard
