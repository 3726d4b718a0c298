// Asks of a ShardDriver that are at the server: what goes with them, and what comes back.

#include <algorithm>
#include <array>
#include <utility>

#include "guard/shard_driver.h"

namespace weir::guard {

namespace redis = store::redis;
using ladder::LadderVerdict;
using ladder::Moment;

namespace {

LadderVerdict by_store(bool allowed) {
  return {.verdict = allowed ? Verdict::allowed : Verdict::limited,
          .rung = Rung::store,
          .reason = allowed ? Reason::within_limit : Reason::over_limit,
          .retry_after = {},
          .numbers_known = true};
}

limit::State state_after(const store::Counter& counter, const redis::CounterReply& reply) {
  if (counter.numbers->algorithm == Algorithm::sliding_log) {
    const auto used =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(reply.log_used, UINT32_MAX));
    return {.current = used};
  }
  if (counter.op == store::Op::reset) return {};
  if (counter.op == store::Op::refund || reply.finding.charged) return reply.finding.step.next;
  return reply.before;
}

}  // namespace

std::uint64_t ShardDriver::take_flight(std::span<SharedAsk* const> asks) {
  if (free_flights_.empty()) {
    flights_.push_back(std::make_unique<Flight>());
    free_flights_.push_back(flights_.size() - 1);
  }
  const std::uint64_t token = free_flights_.back();
  free_flights_.pop_back();
  Flight& flight = *flights_[token];
  const auto counters = asks.front()->request.counters;
  flight.asks.assign(asks.begin(), asks.end());
  flight.loaded_at = asks.front()->loaded_at;
  flight.superfluous.assign(counters.size(), {});
  flight.recordings.clear();
  flight.costs.clear();
  for (const store::Counter& counter : counters) flight.costs.push_back(counter.cost);
  if (asks.size() > 1) {
    flight.counters.assign(counters.begin(), counters.end());
    for (store::Counter& counter : flight.counters) counter.cost *= asks.size();
    counters_.count_coalesced(asks.size() - 1);
  }
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  return token;
}

void ShardDriver::free_flight(std::uint64_t token) {
  free_flights_.push_back(token);
  in_flight_.fetch_sub(1, std::memory_order_relaxed);
  tell_idle();
}

bool ShardDriver::begin_giving_back(SharedAsk& ask) {
  if (!ask.gives_back) return false;
  const Instant now = moment().store;
  charges_.clear();
  for (const store::Counter& refund : ask.request.counters)
    charges_.push_back({refund, refund.cost, refund.receipt});
  give_backs_.give_back(charges_, under(now, ask.loaded_at, false));
  ask.decided({.rung = Rung::store, .retry_after = {}}, now);
  return true;
}

void ShardDriver::send(SharedAsk& ask, bool asking) {
  if (begin_giving_back(ask)) return;
  if (host_.wait_for_server(ask, asking)) return;
  SharedAsk* const one = &ask;
  send_as_one({&one, 1}, asking);
}

void ShardDriver::send_together(std::span<SharedAsk* const> asks) {
  std::vector<SharedAsk*>& now = sending_;
  now.clear();
  for (SharedAsk* const ask : asks) {
    if (!begin_giving_back(*ask) && !host_.wait_for_server(*ask, false)) now.push_back(ask);
  }
  if (now.empty()) return;
  coalescer_.gather(now, clock_.mono(),
                    [this](std::span<SharedAsk* const> alike) { send_as_one(alike); });
}

void ShardDriver::send_as_one(std::span<SharedAsk* const> asks, bool asking, bool divided) {
  const Moment now = moment();
  const std::uint64_t token = take_flight(asks);
  Flight& flight = *flights_[token];
  flight.asking = asking;
  flight.divided = divided;
  const bool several = asks.size() > 1;
  const std::span<const store::Counter> counters =
      several ? std::span<const store::Counter>(flight.counters) : asks.front()->request.counters;
  const GiveBacks::Under under = this->under(now.store, flight.loaded_at, asking);
  tell_owed(flight, counters, now);
  bring_known(flight, counters, now);
  MonoTime answer_by = now.mono + options_.deadline;
  for (SharedAsk* ask : asks) {
    answer_by = std::min(answer_by, ask->answer_by);
    ask->asked_of = this;
    ask->asking = asking;
  }
  client_.ask(counters,
              {.answer_by = answer_by,
               .vote_by = now.mono + options_.deadline,
               .loaded_at = under.loaded_at,
               .generation = ladder_.breaker().generation(),
               .now = under.now,
               .not_after = {},
               .owed = flight.tells ? std::span<const std::optional<redis::Owed>>(
                                          flight.owed.data(), counters.size())
                                    : std::span<const std::optional<redis::Owed>>{},
               .known = flight.brings ? std::span<const std::optional<redis::Known>>(
                                            flight.known.data(), counters.size())
                                      : std::span<const std::optional<redis::Known>>{},
               .at_exact_time = several,
               .asking = asking},
              *this, token);
}

// What was learnt from data that the store may have lost since.
void ShardDriver::bring_known(Flight& flight, std::span<const store::Counter> counters,
                              const Moment& now) {
  flight.brings = false;
  flight.known.assign(counters.size(), std::nullopt);
  for (std::size_t i = 0; i < counters.size(); ++i) {
    // A reset is to forget, and what a refund gives back is in what it asks.
    if (counters[i].op != store::Op::take || counters[i].kept != store::Kept::weir) continue;
    const auto state = ladder_.known().before_loss(counters[i], now.store);
    if (!state) continue;
    flight.brings = true;
    flight.known[i] = redis::Known{*state};
  }
}

void ShardDriver::tell_owed(Flight& flight, std::span<const store::Counter> counters,
                            const Moment& now) {
  flight.tells = false;
  flight.owed.assign(counters.size(), std::nullopt);
  flight.told.resize(counters.size());
  for (std::size_t i = 0; i < counters.size(); ++i) {
    const std::optional<ladder::OwedUnits> owed = ladder_.known().tell(counters[i], now.store);
    if (!owed) continue;
    flight.tells = true;
    flight.told[i] = *owed;
    flight.owed[i] = redis::Owed{.worker = options_.worker,
                                 .outage = owed->outage,
                                 .window = owed->window,
                                 .units = owed->units,
                                 .confirmed = owed->confirmed,
                                 .standing = owed->standing,
                                 .bound = owed->bound};
  }
}

void ShardDriver::on_answer(std::uint64_t token, const redis::Answer& answer) {
  Flight& flight = *flights_[token];
  const std::span<SharedAsk* const> asks = flight.asks;  // the flight is not taken again before end
  if (!answer.decided()) {
    counters_.count_error(*answer.error);
    for (SharedAsk* ask : asks) unanswered(flight, *ask, answer);
  } else if (asks.size() == 1) {
    answered(flight, asks, answer);
  } else {
    answered_together(flight, asks, answer);
  }
  flight.asks.clear();
  if (!answer.reply_may_follow) free_flight(token);
}

void ShardDriver::answered(Flight& flight, std::span<SharedAsk* const> asks,
                           const redis::Answer& answer) {
  SharedAsk& ask = *asks.front();
  const std::optional<SharedAsk::OwnDecision> own = ask.decided_by_itself();
  learn(ask.request.counters, answer);
  settle_told(flight, ask.request.counters);
  if (own) {
    note_decided(flight, ask, *own);
    take_back(flight, ask.request.counters, answer);
  }
  const std::span<store::Finding> findings = ask.findings();
  for (std::size_t i = 0; i < findings.size(); ++i) {
    findings[i] = answer.counters[i].finding;
  }
  count_found(answer);
  ask.decided(by_store(answer.allowed), answer.store_now);
}

// What the script came upon.
void ShardDriver::count_found(const redis::Answer& answer) noexcept {
  for (const redis::CounterReply& reply : answer.counters) {
    if (reply.over_bound) counters_.count_over_bound();
    if (reply.repaired) counters_.count_repaired();
  }
}

void ShardDriver::answered_together(Flight& flight, std::span<SharedAsk* const> asks,
                                    const redis::Answer& answer) {
  learn(flight.counters, answer);
  settle_told(flight, flight.counters);
  count_found(answer);
  // One caller's counters; their keys live as long as the first ask.
  std::vector<store::Counter> each = flight.counters;
  for (std::size_t i = 0; i < each.size(); ++i) each[i].cost = flight.costs[i];
  if (!answer.allowed) {
    InTurn trial(each, answer);
    std::array<store::Finding, store::kMaxCounters> findings;
    std::size_t fit = 0;
    while (fit + 1 < asks.size() && trial.next({findings.data(), each.size()})) ++fit;
    if (fit > 0 && !flight.divided) {
      // Not all fit, but these did a moment ago.
      send_as_one(asks.first(fit), false, true);
      send_as_one(asks.subspan(fit), false, true);
      return;
    }
    if (fit > 0) {
      // Others are after the same last units: whoever divided again could go on until time is up.
      const std::vector<SharedAsk*> alone(asks.begin(), asks.end());
      for (SharedAsk* ask : alone) send_as_one({&ask, 1});
      return;
    }
  }
  InTurn turn(each, answer);
  for (SharedAsk* ask : asks) turn.next(ask->findings());
  // One after the other, so that nobody is held while another's callback runs. The first comes
  // last: the keys of them all are its own.
  for (SharedAsk* ask : asks.subspan(1)) {
    if (const auto own = ask->decided_by_itself()) note_decided(flight, *ask, *own);
    ask->decided(by_store(answer.allowed), answer.store_now);
  }
  SharedAsk& first = *asks.front();
  if (const auto own = first.decided_by_itself()) note_decided(flight, first, *own);
  if (answer.allowed) take_back(flight, flight.counters, answer);
  first.decided(by_store(answer.allowed), answer.store_now);
}

void ShardDriver::unanswered(Flight& flight, SharedAsk& ask, const redis::Answer& answer) {
  // Nothing was carried out: the one that was named decides, or whoever turns out to have the slot.
  const bool unserved = options_.client.session.cluster && redis::is_unserved(answer.error_text);
  if ((unserved || answer.error->error_class == redis::ErrorClass::redirected) &&
      host_.follow(ask, answer.error_text)) {
    return;
  }
  if (unserved) vote_unserved();
  // Whatever another store says is not owed here: a charge that comes late is given back.
  if (host_.ask_another(ask)) {
    note_unwanted(flight);
    return;
  }
  if (ask.counts_at(*this)) counters_.count_without();
  const Moment now = moment();
  const std::optional<SharedAsk::OwnDecision> own = ask.decided_by_itself();
  LadderVerdict verdict = own ? own->verdict : ladder_.without(ask.request, now, ask.findings());
  verdict.was_sent = answer.may_be_carried_out;
  if (answer.reply_may_follow && !ask.stands) {
    if (!own && verdict.record && !ask.late) ask.late = std::make_shared<LateCharges>();
    note_decided(flight, ask, own ? *own : SharedAsk::OwnDecision{verdict, ask.findings()});
  }
  ask.decided(verdict, now.store);
}

void ShardDriver::vote_unserved() noexcept {
  on_vote({.generation = ladder_.breaker().generation(),
           .failed = true,
           .latency = options_.deadline,
           .error = &redis::classify_reply("CLUSTERDOWN")});
}

void ShardDriver::never_served(SharedAsk& ask) noexcept {
  vote_unserved();
  if (!host_.ask_another(ask)) decide_without(ask);
}

void ShardDriver::settle_told(const Flight& flight, std::span<const store::Counter> counters) {
  if (!flight.tells) return;
  for (std::size_t i = 0; i < counters.size(); ++i) {
    if (flight.owed[i]) ladder_.known().settled(counters[i].digest, flight.told[i]);
  }
}

void ShardDriver::note_unwanted(Flight& flight) {
  for (std::size_t i = 0; i < flight.costs.size(); ++i) {
    flight.superfluous[i].units += flight.costs[i];
  }
}

// Admitted from a part, its units are owed as well, and are owed no longer once the store turns out
// to have charged them; refused or limited, they are given back. What `open` admitted stays
// charged, and so does what was served beyond a part: beside it other rules may have been charged
// to theirs, whatever the rung of the whole.
void ShardDriver::note_decided(Flight& flight, const SharedAsk& ask,
                               const SharedAsk::OwnDecision& own) {
  if (own.verdict.verdict != Verdict::allowed) {
    note_unwanted(flight);
    return;
  }
  const std::span<const store::Counter> counters = ask.request.counters;
  std::uint64_t owed = 0;
  for (std::size_t i = 0; i < counters.size(); ++i) {
    if (!own.findings[i].charged) continue;
    Superfluous& superfluous = flight.superfluous[i];
    superfluous.outage = ladder_.known().outage_of(counters[i].digest);
    if (superfluous.outage == 0) continue;
    // A late report may have used up less of the part than was used.
    superfluous.owed_units += own.findings[i].units;
    owed |= std::uint64_t{1} << i;
  }
  if (ask.late) flight.recordings.push_back({ask.late, owed});
}

// The store charged an ask that had been decided without it.
void ShardDriver::take_back(const Flight& flight, std::span<const store::Counter> counters,
                            const redis::Answer& answer) {
  const Moment now = moment();
  charges_.clear();
  // Nobody withdraws one of them meanwhile.
  std::vector<std::unique_lock<std::mutex>> held;
  for (const Flight::Recording& recording : flight.recordings)
    held.push_back(recording.late->lock());
  for (std::size_t i = 0; i < counters.size(); ++i) {
    const store::Finding& found = answer.counters[i].finding;
    // A drain is of an answer that was given, and right whenever it comes: it is not given back,
    // but what it took of this worker's part is owed no longer.
    const bool drains = counters[i].op == store::Op::drain;
    if ((counters[i].op != store::Op::take && !drains) || !found.charged) continue;
    const Instant receipt = found.step.receipt();
    Superfluous superfluous = flight.superfluous[i];
    for (const Flight::Recording& recording : flight.recordings) {
      if (!recording.late->withdrawn()) continue;
      superfluous.units += flight.costs[i];
      if ((recording.owed >> i & 1) != 0) superfluous.owed_units -= flight.costs[i];
    }
    if (drains) {
      const std::uint64_t owed = std::min(superfluous.owed_units, found.units);
      if (owed > 0)
        (void)ladder_.known().forgive(counters[i], superfluous.outage, receipt, owed, now.store);
      continue;
    }
    std::uint64_t twice = std::min(superfluous.units, found.units);
    const std::uint64_t owed = std::min(superfluous.owed_units, found.units - twice);
    std::uint64_t told = 0;  // of what is owed: given back instead
    if (owed > 0)
      told = ladder_.known().forgive(counters[i], superfluous.outage, receipt, owed, now.store);
    twice += told;
    if (twice > 0) charges_.push_back({counters[i], twice, receipt});
    for (const Flight::Recording& recording : flight.recordings) {
      if (recording.late->withdrawn()) continue;
      const std::uint64_t gone = std::min(told, flight.costs[i]);
      told -= gone;
      if (gone < flight.costs[i]) recording.late->keep(counters[i], found, flight.costs[i] - gone);
    }
  }
  if (!charges_.empty())
    give_backs_.give_back(charges_, under(now.store, flight.loaded_at, flight.asking));
}

GiveBacks* ShardDriver::elsewhere(std::string_view error, GiveBacks::Under& under) noexcept {
  ShardDriver* const to = host_.give_back_to(error, under.asking);
  return to == nullptr ? nullptr : &to->give_backs_;
}

void ShardDriver::give_back(const SharedAsk& ask, std::span<const store::Counter> counters,
                            std::span<const store::Finding> charged) {
  charges_.clear();
  for (std::size_t i = 0; i < counters.size(); ++i) {
    // A drain is of an answer that was given, whatever becomes of the others.
    if (counters[i].op != store::Op::take || !charged[i].charged || charged[i].units == 0) continue;
    charges_.push_back({counters[i], charged[i].units, charged[i].step.receipt()});
  }
  if (!charges_.empty())
    give_backs_.give_back(charges_, under(moment().store, ask.loaded_at, ask.asking));
}

void ShardDriver::take_back(const SharedAsk& ask, std::span<const store::Counter> counters,
                            std::span<const store::Finding> charged,
                            const SharedAsk::OwnDecision& own) {
  std::unique_lock<std::mutex> held;
  if (ask.late) held = ask.late->lock();
  const bool admitted =
      own.verdict.verdict == Verdict::allowed && !(ask.late && ask.late->withdrawn());
  const Instant now = moment().store;
  charges_.clear();
  for (std::size_t i = 0; i < counters.size(); ++i) {
    if (counters[i].op != store::Op::take || !charged[i].charged || charged[i].units == 0) continue;
    const Instant receipt = charged[i].step.receipt();
    std::uint64_t twice = charged[i].units;
    if (admitted) {
      const std::uint64_t outage =
          own.findings[i].charged ? ladder_.known().outage_of(counters[i].digest) : 0;
      // Admitted without a part the charge is its only trace.
      twice = outage == 0 ? 0 : ladder_.known().forgive(counters[i], outage, receipt, twice, now);
      if (ask.late && twice < charged[i].units)
        ask.late->keep(counters[i], charged[i], charged[i].units - twice);
    }
    if (twice > 0) charges_.push_back({counters[i], twice, receipt});
  }
  if (!charges_.empty()) give_backs_.give_back(charges_, under(now, ask.loaded_at, ask.asking));
}

void ShardDriver::learn(std::span<const store::Counter> counters, const redis::Answer& answer) {
  const MonoTime now = clock_.mono();
  for (std::size_t i = 0; i < counters.size() && i < answer.counters.size(); ++i) {
    const redis::CounterReply& reply = answer.counters[i];
    store::Counter known = counters[i];
    known.numbers = &reply.numbers;
    const limit::Step& step = reply.finding.step;
    const bool denied = counters[i].op == store::Op::take && counters[i].cost > 0 &&
                        step.outcome != limit::Outcome::allowed && reply.finding.retry_known;
    ladder_.known().learn(known, state_after(counters[i], reply), answer.store_now, now,
                          denied ? &step : nullptr);
  }
}

}  // namespace weir::guard
