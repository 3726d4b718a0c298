#include "guard/shard_driver.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/key_digest.h"
#include "limit/client_skew.h"
#include "render/text.h"
#include "store/redis/script.h"

namespace weir::guard {

namespace redis = store::redis;
using breaker::ProbeBreaker;
using ladder::LadderVerdict;
using ladder::Moment;

namespace {

constexpr Nanos kMostBackoff = std::chrono::seconds(2);
constexpr Nanos kLeastHang = std::chrono::milliseconds(200);

breaker::ProbeBreakerConfig breaker_config(const policy::StoreSpec& spec) {
  return {.failures = spec.breaker.failures,
          .slow_call = spec.breaker.slow_call,
          .slow_percent = static_cast<std::uint32_t>(spec.breaker.slow_rate * 100 + 0.5),
          .cooldown = spec.breaker.cooldown,
          .max_cooldown = spec.breaker.max_cooldown,
          .jitter_percent = static_cast<std::uint32_t>(spec.breaker.jitter * 100 + 0.5),
          .ramp_steps = spec.recovery.steps,
          .ramp_step = spec.recovery.step};
}

// Seeds drawn from one: what they seed must not run in step.
std::uint64_t drawn(std::uint64_t random, std::uint64_t which) {
  std::uint64_t z = random + which * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

// Tells the data of one store from what it holds after it has lost them, or may have: after its
// process ended, or when its epoch is gone.
std::uint64_t origin_of(const redis::StoreReport& report) {
  static const KeyHasher hasher(
      KeyHasher::Secret{'w', 'e', 'i', 'r', ' ', 'o', 'r', 'i', 'g', 'i', 'n'});
  return hasher(report.run_id + " " + report.epoch).lo;
}

// Where there was no connection to ask on, why there was none says more.
std::string_view why_away(const redis::ErrorRow& last, std::string_view trouble) {
  const bool unconnected = &last == &redis::row_of(redis::LocalFault::not_connected);
  return unconnected && !trouble.empty() ? trouble : last.meaning;
}

LadderVerdict by_store(bool allowed) {
  return {.verdict = allowed ? Verdict::allowed : Verdict::limited,
          .rung = Rung::store,
          .reason = allowed ? Reason::within_limit : Reason::over_limit,
          .retry_after = {},
          .numbers_known = true};
}

limit::State state_after(const store::Counter& counter, const redis::CounterReply& reply) {
  if (counter.op == store::Op::reset) return {};
  if (counter.op == store::Op::refund || reply.finding.charged) return reply.finding.step.next;
  return reply.before;
}

}  // namespace

ShardDriver::Options ShardDriver::Options::of(const policy::StoreSpec& spec, std::uint64_t random) {
  return {.deadline = spec.deadline,
          .worker = drawn(random, 1),
          .client_clock = spec.client_clock,
          .ladder = {.breaker = breaker_config(spec),
                     .known_keys = static_cast<std::size_t>(spec.known_keys),
                     .random_seed = drawn(random, 2)},
          .client = {.session = {.hang_after = std::max<Nanos>(spec.deadline * 10, kLeastHang),
                                 .random_seed = drawn(random, 3)},
                     .connect_timeout = spec.connect_timeout,
                     // No slower than the breaker probes: a store is not there before its
                     // connection is.
                     .max_backoff = std::min(kMostBackoff, spec.breaker.max_cooldown),
                     .random_seed = drawn(random, 4)}};
}

ShardDriver::ShardDriver(Options options, redis::KeySpace keys, redis::Wire& wire, Clock& clock,
                         Observer* observer, Host& host)
    : options_(std::move(options)),
      clock_(clock),
      observer_(observer),
      host_(host),
      ladder_(options_.ladder),
      client_(options_.client, std::move(keys), wire, clock, *this),
      give_backs_(client_, clock, options_.client.session.hang_after, counters_, *this),
      seat_(options_.seat,
            {.tell = [this](const StoreEvent& event) { tell(event); },
             .write = [this](std::string text,
                             std::uint64_t epoch) { host_.write_view(std::move(text), epoch); },
             .rearm =
                 [this] {
                   arm();
                   host_.connection_changed();
                 },
             .lost = [this] { look_at_epoch(); }},
            client_, ladder_, clock) {
  ladder_.breaker().begin(clock_.mono());
}

ShardDriver::~ShardDriver() {
  stop();
}

void ShardDriver::start() {
  client_.start();
}

void ShardDriver::stop() {
  stopping_ = true;
  client_.stop();
}

// ---- From any thread
// ------------------------------------------------------------------------------

bool ShardDriver::begin(SharedAsk& ask) noexcept {
  ask.asked_of = this;
  LadderVerdict verdict;
  const Moment now = moment();
  switch (ladder_.begin(ask.request, now, ask.findings(), verdict)) {
    case ladder::ShardLadder::Begin::ask:
      return true;
    case ladder::ShardLadder::Begin::decided:
      ask.decided(verdict, now.store);
      return false;
    case ladder::ShardLadder::Begin::away:
      break;
  }
  if (!host_.ask_another(ask)) {
    counters_.count_without();
    ask.decided(ladder_.without(ask.request, now, ask.findings()), now.store);
  }
  return false;
}

void ShardDriver::no_room(SharedAsk& ask) noexcept {
  counters_.count_no_room();
  counters_.count_error(redis::row_of(redis::LocalFault::saturated));
  decide_without(ask);
}

void ShardDriver::decide_without(SharedAsk& ask) noexcept {
  counters_.count_without();
  ask.asked_of = this;
  const Moment now = moment();
  if (const auto own = ask.decided_by_itself()) {
    ask.decided(own->verdict, now.store);
    return;
  }
  ask.decided(ladder_.without(ask.request, now, ask.findings()), now.store);
}

LadderVerdict ShardDriver::without(const ladder::LadderRequest& request,
                                   std::span<store::Finding> findings) noexcept {
  return ladder_.without(request, moment(), findings);
}

LadderVerdict ShardDriver::not_recorded(const ladder::LadderRequest& request,
                                        std::span<store::Finding> findings,
                                        const LadderVerdict& served) noexcept {
  return ladder_.not_recorded(request, moment(), findings, served);
}

Moment ShardDriver::moment() const noexcept {
  const MonoTime mono = clock_.mono();
  return {deciding_time(store_time_at(mono)), mono};
}

Instant ShardDriver::store_time_at(MonoTime mono) const noexcept {
  const std::int64_t offset = store_offset_ns_.load(std::memory_order_relaxed);
  if (offset == kUnknownOffset) return clock_.now();
  return Instant{mono.time_since_epoch() + Nanos(offset)};
}

// A clock that is further off than the arithmetic forgives would be seen by others as one that was
// set, and they would bring back what it counted: it goes with the store's as far as that.
Instant ShardDriver::deciding_time(Instant store) const noexcept {
  if (!options_.client_clock) return store;
  constexpr Nanos kMost(limit::kMostClientSkewNs);
  return std::clamp(clock_.now(), store - kMost, store + kMost);
}

// A load is told by the clock of whoever loaded it: what that is off by is taken out. By the same
// each time, as long as it is about that, so that the order of two loads stays what it is.
GiveBacks::Under ShardDriver::under(Instant now, Instant loaded_at, bool asking) noexcept {
  constexpr Nanos kAbout = std::chrono::milliseconds(100);
  const Nanos off = now - clock_.now();
  if (std::chrono::abs(off - load_off_) > kAbout) load_off_ = off;
  GiveBacks::Under out{.loaded_at = loaded_at + load_off_, .now = {}, .asking = asking};
  if (options_.client_clock) out.now = now;
  return out;
}

ShardDriver::Connection ShardDriver::connection() const {
  std::lock_guard lock(connection_mutex_);
  return connection_;
}

std::string ShardDriver::state_json() const {
  std::string out = "{\"state\":";
  render::append_json_string(out, breaker::to_string(ladder_.breaker().state()));
  const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(
      clock_.mono() - ladder_.breaker().since());
  out += ",\"state_for_ms\":" + std::to_string(since.count());
  seat_.append_json(out);
  out += ",\"known_keys\":" + std::to_string(ladder_.known().size());
  out += ",\"owed_units\":" + std::to_string(ladder_.known().owed_units(moment().store));
  const Connection connection = this->connection();
  out += ",\"in_flight\":" + std::to_string(in_flight_.load(std::memory_order_relaxed));
  if (const std::int64_t rtt = rtt_ns_.load(std::memory_order_relaxed); rtt > 0) {
    out += ",\"rtt_us\":" + std::to_string(rtt / 1'000);
  }
  if (const std::optional<Nanos> skew = clock_skew()) {
    out += ",\"clock_skew_us\":" + std::to_string(skew->count() / 1'000);
  }
  if (options_.client_clock) out += ",\"clock\":\"client\"";
  const auto ms_since = [this](MonoTime then) {
    return std::to_string(
        std::chrono::duration_cast<std::chrono::milliseconds>(clock_.mono() - then).count());
  };
  out += std::string(",\"connected\":") + (connection.up ? "true" : "false");
  if (connection.up) out += ",\"connected_for_ms\":" + ms_since(connection.since);
  if (!connection.last_error.empty()) {
    out += ",\"last_error\":";
    render::append_json_string(out, connection.last_error);
    out += ",\"last_error_ms_ago\":" + ms_since(connection.last_error_at);
  }
  if (!connection.version.empty()) {
    out += ",\"server_version\":";
    render::append_json_string(out, connection.version);
  }
  out += std::string(",\"scripts\":{\"ask\":\"") + redis::kAskScript.sha + "\",\"self_test\":\"" +
         redis::kSelfTestScript.sha + "\",\"beat\":\"" + redis::kBeatScript.sha + "\"}}";
  return out;
}

std::optional<Nanos> ShardDriver::clock_skew() const noexcept {
  if (store_offset_ns_.load(std::memory_order_relaxed) == kUnknownOffset) return std::nullopt;
  return store_time() - clock_.now();
}

// ---- Asks
// -----------------------------------------------------------------------------------------

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
}

void ShardDriver::send(SharedAsk& ask, bool asking) {
  SharedAsk* const one = &ask;
  send_as_one({&one, 1}, asking);
}

void ShardDriver::send_together(std::span<SharedAsk* const> asks) {
  if (asks.empty()) return;
  coalescer_.gather(asks, clock_.mono(),
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
                                 .bound = limit::most_of_parts(*counters[i].numbers)};
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
  // Nothing was carried out: the one that was named decides.
  if (answer.error->error_class == redis::ErrorClass::redirected &&
      host_.follow(ask, answer.error_text)) {
    return;
  }
  // Whatever another store says is not owed here: a charge that comes late is given back.
  if (host_.ask_another(ask)) {
    note_unwanted(flight);
    return;
  }
  counters_.count_without();
  const Moment now = moment();
  const std::optional<SharedAsk::OwnDecision> own = ask.decided_by_itself();
  LadderVerdict verdict = own ? own->verdict : ladder_.without(ask.request, now, ask.findings());
  verdict.was_sent = answer.error != &redis::row_of(redis::LocalFault::not_connected);
  if (answer.reply_may_follow && !ask.stands) {
    note_decided(flight, ask, own ? *own : SharedAsk::OwnDecision{verdict, ask.findings()});
  }
  ask.decided(verdict, now.store);
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
// charged.
void ShardDriver::note_decided(Flight& flight, const SharedAsk& ask,
                               const SharedAsk::OwnDecision& own) {
  if (own.verdict.verdict != Verdict::allowed) {
    note_unwanted(flight);
    return;
  }
  if (own.verdict.rung != Rung::share) return;
  const std::span<const store::Counter> counters = ask.request.counters;
  for (std::size_t i = 0; i < counters.size(); ++i) {
    if (!own.findings[i].charged) continue;
    Superfluous& superfluous = flight.superfluous[i];
    superfluous.outage = ladder_.known().outage_of(counters[i].digest);
    if (superfluous.outage != 0) superfluous.owed_units += flight.costs[i];
  }
}

// The store charged an ask that had been decided without it.
void ShardDriver::take_back(const Flight& flight, std::span<const store::Counter> counters,
                            const redis::Answer& answer) {
  charges_.clear();
  for (std::size_t i = 0; i < counters.size(); ++i) {
    const store::Finding& found = answer.counters[i].finding;
    // A drain is of an answer that was given, and right whenever it comes.
    if (counters[i].op != store::Op::take || !found.charged) continue;
    const Instant receipt = found.step.receipt();
    const Superfluous& superfluous = flight.superfluous[i];
    std::uint64_t twice = std::min(superfluous.units, found.units);
    const std::uint64_t owed = std::min(superfluous.owed_units, found.units - twice);
    if (owed > 0) twice += ladder_.known().forgive(counters[i], superfluous.outage, receipt, owed);
    if (twice > 0) charges_.push_back({counters[i], twice, receipt});
  }
  if (!charges_.empty())
    give_backs_.give_back(charges_, under(moment().store, flight.loaded_at, flight.asking));
}

void ShardDriver::give_back(const SharedAsk& ask, std::span<const store::Counter> counters,
                            std::span<const store::Finding> charged) {
  charges_.clear();
  for (std::size_t i = 0; i < counters.size(); ++i) {
    if (!charged[i].charged || charged[i].units == 0) continue;
    charges_.push_back({counters[i], charged[i].units, charged[i].step.receipt()});
  }
  if (!charges_.empty())
    give_backs_.give_back(charges_, under(moment().store, ask.loaded_at, ask.asking));
}

void ShardDriver::take_back(const SharedAsk& ask, std::span<const store::Counter> counters,
                            std::span<const store::Finding> charged,
                            const SharedAsk::OwnDecision& own) {
  const bool admitted = own.verdict.verdict == Verdict::allowed;
  const bool from_part = admitted && own.verdict.rung == Rung::share;
  charges_.clear();
  for (std::size_t i = 0; i < counters.size(); ++i) {
    if (!charged[i].charged || charged[i].units == 0) continue;
    const Instant receipt = charged[i].step.receipt();
    std::uint64_t twice = charged[i].units;
    if (admitted) {
      const std::uint64_t outage =
          from_part && own.findings[i].charged ? ladder_.known().outage_of(counters[i].digest) : 0;
      if (outage == 0) continue;  // admitted without a part: the charge is its only trace
      twice = ladder_.known().forgive(counters[i], outage, receipt, twice);
    }
    if (twice > 0) charges_.push_back({counters[i], twice, receipt});
  }
  if (!charges_.empty())
    give_backs_.give_back(charges_, under(moment().store, ask.loaded_at, ask.asking));
}

void ShardDriver::learn(std::span<const store::Counter> counters, const redis::Answer& answer) {
  const MonoTime now = clock_.mono();
  for (std::size_t i = 0; i < counters.size() && i < answer.counters.size(); ++i) {
    const redis::CounterReply& reply = answer.counters[i];
    store::Counter known = counters[i];
    known.numbers = &reply.numbers;
    const auto used =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(reply.log_used, reply.numbers.limit));
    const limit::Step& step = reply.finding.step;
    const bool denied = counters[i].op == store::Op::take && counters[i].cost > 0 &&
                        step.outcome != limit::Outcome::allowed && reply.finding.retry_known;
    ladder_.known().learn(known, state_after(counters[i], reply), reply.numbers.limit - used,
                          answer.store_now, now, denied ? &step : nullptr);
  }
}

// ---- What the client says
// -------------------------------------------------------------------------

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
    connection_.since = connection_.last_error_at = clock_.mono();
    connection_.trouble = std::string(why.meaning);
    if (!text.empty()) connection_.trouble += ": " + std::string(text);
    connection_.last_error = connection_.trouble;
  }
  seat_.store_away();
  host_.connection_changed();
}

void ShardDriver::name_shard(std::string shard) {
  client_.name_shard(std::move(shard));
  if (client_.ready()) look_at_epoch();
}

void ShardDriver::on_elsewhere() {
  ladder_.breaker().hasten(clock_.mono());
  arm();
}

// ---- The breaker's turns
// --------------------------------------------------------------------------

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
    case Change::opened: {
      counters_.count_opening();
      went_away(clock_.mono());
      const std::string trouble = connection().trouble;
      tell({.kind = StoreEvent::Kind::away,
            .why = why != nullptr ? why_away(*why, trouble) : std::string_view("slow calls"),
            .next_probe = ladder_.breaker().until_probe(clock_.mono()).value_or(Nanos(0))});
      client_.release_waiting();
      break;
    }
    case Change::recovering:
      tell({.kind = StoreEvent::Kind::answers_again});
      break;
    case Change::closed:
      counters_.count_closing();
      tell({.kind = StoreEvent::Kind::back,
            .owed_units = ladder_.known().owed_units(moment().store),
            .away_for = clock_.mono() - away_.since,
            .decided_without = counters_.without() - away_.without});
      away_.now = false;
      seat_.store_there();
      break;
  }
  arm();
}

// From the first opening on, however often it opens again before every key is back.
void ShardDriver::went_away(MonoTime now) {
  if (away_.now) return;
  away_ = {.now = true, .since = now, .without = counters_.without()};
}

void ShardDriver::arm() {
  std::optional<MonoTime> next = ladder_.breaker().next_event();
  const std::optional<MonoTime> beat = seat_.next_event();
  if (beat && (!next || *beat < *next)) next = beat;
  if (!next || stopping_ || armed_ == next) return;
  armed_ = next;
  host_.wake_at(*next);
}

void ShardDriver::on_wake() {
  armed_.reset();
  if (stopping_) return;
  seat_.poll();
  changed(ladder_.breaker().poll(clock_.mono()), nullptr);
}

// The fleet's members are gone, and perhaps all the rest: the self-test reads the epoch again.
void ShardDriver::look_at_epoch() {
  if (stopping_ || ladder_.breaker().state() != breaker::ProbeState::closed) return;
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
