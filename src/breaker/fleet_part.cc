#include "breaker/fleet_part.h"

#include <algorithm>

#include "breaker/backoff.h"

namespace weir::breaker {
namespace {

using std::chrono::seconds;
using Kind = store::redis::CircuitAction::Kind;
using Flag = store::redis::CircuitAction::Flag;
using Outcome = store::redis::CircuitReply::Outcome;
using State = store::redis::CircuitRecord::State;
using Mode = store::redis::CircuitRecord::Mode;

constexpr Nanos kShortestVote = seconds(10);
constexpr Nanos kLongestVote = std::chrono::minutes(10);
constexpr Nanos kWindowOfCalls = seconds(30);
// Where the window is too empty for a vote, it is looked at again after so long.
constexpr Nanos kLookAgain = std::chrono::milliseconds(200);
// What could not be told is tried again after so long, as long as it still says something.
constexpr Nanos kTryAgain = std::chrono::milliseconds(500);
constexpr std::size_t kMostVerdicts = 256;
// Votes begin anew with every change, and everybody sees it within 200 ms: who is the first to
// speak ill of it would be the only one.
constexpr Nanos kOthersFirst = std::chrono::milliseconds(500);
// An operator's word that could not be told for so long is not a new one any more.
constexpr Nanos kNewWord = seconds(1);

// A vote counts about as long as what it says is remembered.
Nanos vote_lasts(const BreakerConfig& config) {
  const auto* time = std::get_if<LastTime>(&config.window);
  return std::clamp(time != nullptr ? time->length : kWindowOfCalls, kShortestVote, kLongestVote);
}

BreakerMode mode_of(Mode mode) {
  if (mode == Mode::forced_open) return BreakerMode::forced_open;
  if (mode == Mode::forced_closed) return BreakerMode::forced_closed;
  return BreakerMode::automatic;
}

Flag flag_of(BreakerMode mode) {
  if (mode == BreakerMode::forced_open) return Flag::forced_open;
  if (mode == BreakerMode::forced_closed) return Flag::forced_closed;
  return Flag::automatic;
}

}  // namespace

// ---- What the record says

bool FleetPart::note(const std::optional<Record>& record, Instant store_now, MonoTime asked,
                     MonoTime now) {
  const bool news = record.has_value() != record_.has_value() ||
                    (record && (record->epoch != epoch_ || record->state != record_->state ||
                                record->mode != record_->mode));
  if (epoch_ != 0 && (!record || record->epoch != epoch_)) bad_vote_at_ = now + kOthersFirst;
  record_ = record;
  epoch_ = record ? record->epoch : 0;
  asked_at_ = asked;
  read_at_ = now;
  store_at_ = store_now;
  if (record) last_epoch_ = epoch_;
  // Votes end with what they were about. Who opened by itself goes by its own clock meanwhile.
  if (news && !tripped_at_) vote_at_ = now;
  return news;
}

BreakerState FleetPart::state(MonoTime now) const {
  if (!record_) return BreakerState::closed;
  switch (record_->state) {
    case State::open:
      return BreakerState::open;
    case State::half_open:
      return BreakerState::half_open;
    case State::recovering:
      return now >= until() ? BreakerState::closed : BreakerState::recovering;
    case State::closed:
      break;
  }
  return BreakerState::closed;
}

BreakerMode FleetPart::mode(MonoTime now) const {
  if (!record_ || record_->mode == Mode::automatic) return BreakerMode::automatic;
  if (const auto ends = mode_ends(); ends && now >= *ends) return BreakerMode::automatic;
  return mode_of(record_->mode);
}

ModeOrder FleetPart::order() const {
  ModeOrder order{.mode = mode_of(record_->mode), .by = record_->by, .reason = record_->reason};
  if (mode_ends()) order.lasts = std::max(record_->mode_until - record_->since, Nanos::zero());
  return order;
}

// Of an automatic mode `mode_until` says when it was set, and nothing where nobody set it.
std::optional<MonoTime> FleetPart::mode_ends() const {
  const bool never =
      record_->mode == Mode::automatic || record_->mode_until.time_since_epoch() == Nanos::zero();
  return never ? std::nullopt : std::optional(mono(record_->mode_until));
}

bool FleetPart::mode_is_over(MonoTime now) const {
  if (record_->mode == Mode::automatic)
    return record_->mode_until.time_since_epoch() == Nanos::zero();
  const auto ends = mode_ends();
  return ends && now >= *ends;
}

bool FleetPart::closed_since(MonoTime then) const {
  // A record that was just made, after the one before was lost, has had no round yet.
  if (!record_ || record_->round == 0) return false;
  // An answer takes its time: only what closed later by the earliest that it can have been is
  // later.
  return asked_at_ + (record_->since - store_at_) > then;
}

MonoTime FleetPart::next_slot(MonoTime now, Nanos half_open) {
  MonoTime next = now + jittered(kPace, 20, random_);
  if (!record_) return next;
  for (const Record::Probe& probe : record_->probes)
    if (mono(probe.till) > now) next = std::min(next, mono(probe.till));
  return std::max(std::min(next, mono(record_->since) + half_open), now);
}

// ---- What is to be told

void FleetPart::leaves_window(bool enough, const BreakerConfig& config, MonoTime now) {
  stood_ = enough;
  fresh_till_ = now + vote_lasts(config);
  standing_till_ = {};
}

void FleetPart::opened(const Opening& opening, const BreakerConfig& config, MonoTime now) {
  if (opening.enough) leaves_window(*opening.enough, config, now);
  wanted_till_ = now + opening.wanted.value_or(Nanos::zero());
  tripped_at_ = now;
  well_again_ = false;
  vote_at_ = {};
  if (!opening.directive) return;
  trip_ = opening.wanted.value_or(Nanos::zero());
  trip_epoch_ = opening.fenced ? std::optional(epoch_) : std::nullopt;
  trip_till_ = now + std::max(*trip_, Nanos(seconds(5)));
}

void FleetPart::recovered(const BreakerConfig& config, MonoTime now) {
  if (tripped_at_) {
    well_again_ = stood_;
    vote_at_ = {};
  }
  if (stood_) standing_till_ = now + vote_lasts(config);
  wanted_till_ = {};
  tripped_at_.reset();
  trip_.reset();
}

FleetPart::Word FleetPart::word_of(const Record& record) {
  return {.epoch = record.epoch, .mode = record.mode, .mode_until = record.mode_until};
}

// Whether an operator has set anything between what was known and this record.
bool FleetPart::spoke_since(const Word& known, const Record& record) {
  if (record.mode != Mode::automatic) return true;
  if (record.mode_until.time_since_epoch() == Nanos::zero()) return false;
  return known.mode != Mode::automatic || known.mode_until != record.mode_until;
}

void FleetPart::force(ModeOrder order, std::optional<MonoTime> ends, MonoTime now) {
  force_ = Force{.order = std::move(order),
                 .ends = ends,
                 .known = record_ ? word_of(*record_) : Word{},
                 .set_at = now,
                 .number = ++number_};
}

void FleetPart::put_back(ModeOrder order, std::optional<MonoTime> ends) {
  force_ = Force{.order = std::move(order), .ends = ends, .number = ++number_};
}

std::uint64_t FleetPart::fence_of(Force& force, MonoTime now) {
  const std::optional<MonoTime> set_at = std::exchange(force.set_at, std::nullopt);
  return set_at && now - *set_at <= kNewWord ? 0 : force.known.epoch;
}

bool FleetPart::settle(std::uint32_t probe, Action::Flag flag, Nanos wanted,
                       std::optional<CallCounters::Kind> reported, MonoTime now) {
  const auto found = probes_.find(probe);
  if (found == probes_.end()) return false;
  const Probe of = found->second;
  probes_.erase(found);
  if (now >= of.till) return false;
  if (verdicts_.size() >= kMostVerdicts) {
    end(verdicts_.front(), false);
    verdicts_.pop_front();
    ++lost_;
  }
  Action action = word(Kind::settle);
  action.epoch = of.epoch;
  action.round = of.round;
  action.flag = flag;
  action.probe = of.number;
  action.wanted = wanted;
  verdicts_.push_back(
      {.number = ++number_, .action = action, .reported = reported, .till = of.till});
  return true;
}

void FleetPart::end(const Verdict& verdict, bool counted) {
  if (verdict.reported) ended_.push_back({.kind = *verdict.reported, .counted = counted});
}

void FleetPart::forget_verdicts() {
  for (const Verdict& verdict : verdicts_) end(verdict, false);
  verdicts_.clear();
}

std::uint32_t FleetPart::expire(MonoTime now) {
  return static_cast<std::uint32_t>(
      std::erase_if(probes_, [now](const auto& each) { return now >= each.second.till; }));
}

FleetPart::Action FleetPart::word(Kind kind) const {
  Action action;
  action.kind = kind;
  action.who = who_;
  action.epoch = epoch_;
  return action;
}

std::int32_t FleetPart::draw_jitter(const BreakerConfig& config) {
  const std::uint64_t width = std::uint64_t{config.jitter_percent} * 20 + 1;
  return static_cast<std::int32_t>(next_random(random_) % width) -
         static_cast<std::int32_t>(config.jitter_percent) * 10;
}

std::vector<FleetPart::Due> FleetPart::due(const BreakerConfig& config, const Local& local,
                                           bool store_up, MonoTime now) {
  std::vector<Due> out;
  if (waiting_ && !ask_out_) {
    ask_out_ = true;
    Action action = word(Kind::probe);
    action.jitter_thousandths = draw_jitter(config);
    out.push_back({{Kind::probe, 0}, action});
  }
  if (!store_up) return out;
  if (force_ && !force_->out && force_->ends && now >= *force_->ends) force_.reset();
  if (force_ && !force_->out) {
    force_->out = true;
    Action action = word(Kind::force);
    action.epoch = fence_of(*force_, now);
    action.flag = flag_of(force_->order.mode);
    action.by = force_->order.by;
    action.reason = force_->order.reason;
    if (force_->ends) action.lasts = *force_->ends - now;
    out.push_back({{Kind::force, force_->number}, action});
  }
  for (Verdict& verdict : verdicts_) {
    if (verdict.out) continue;
    verdict.out = true;
    verdict.action.jitter_thousandths = draw_jitter(config);
    out.push_back({{Kind::settle, verdict.number}, verdict.action});
  }
  if (trip_ && !trip_out_ && local.working) {
    trip_out_ = true;
    Action action = word(Kind::trip);
    if (trip_epoch_) action.epoch = *trip_epoch_;
    action.wanted = *trip_;
    action.jitter_thousandths = draw_jitter(config);
    out.push_back({{Kind::trip, 0}, action});
  }
  if (vote_due(now) && local.working) add_vote(config, local, now, out);
  return out;
}

void FleetPart::add_vote(const BreakerConfig& config, const Local& local, MonoTime now,
                         std::vector<Due>& out) {
  const bool bad = tripped_at_.has_value() && !local.closed;
  const bool may = bad ? stood_ : well_again_ || (local.closed && local.enough_calls);
  if (!may) {
    vote_at_ = now + kLookAgain;
    return;
  }
  if (bad && now < bad_vote_at_) {
    vote_at_ = bad_vote_at_;
    return;
  }
  // Where the fleet is open already, nobody is asked.
  if (record_ && (record_->state == State::open || record_->state == State::half_open)) {
    vote_at_ = now + kLookAgain;
    return;
  }
  vote_out_ = true;
  Action action = word(Kind::vote);
  action.flag = !bad ? Flag::good : now < fresh_till_ ? Flag::bad : Flag::still_bad;
  if (bad) action.wanted = std::max(wanted_till_ - now, Nanos::zero());
  action.lasts =
      bad ? std::clamp(local.open_for, vote_lasts(config), kLongestVote) : vote_lasts(config);
  action.jitter_thousandths = draw_jitter(config);
  // Said again once half its time is over: with room, as the store must agree that it is.
  vote_again_ = now + jittered(action.lasts * 3 / 5, 10, random_);
  out.push_back({{Kind::vote, bad ? 1U : 0U}, action});
}

FleetPart::Heard FleetPart::heard(const Ticket& ticket, const Reply* reply, bool late,
                                  const BreakerConfig& config, MonoTime asked, MonoTime now) {
  Heard out;
  const std::uint64_t epoch_before = epoch_;
  const bool stale = reply != nullptr && reply->outcome == Outcome::stale;
  if (reply != nullptr) ++told_;
  // What came late is old; what stands is read again anyway.
  out.follow = reply != nullptr && !late;
  if (out.follow)
    note(reply->kept ? std::optional(reply->record) : std::nullopt, reply->now, asked, now);
  switch (ticket.kind) {
    case Kind::force:
      heard_force(reply, stale, ticket.number);
      break;
    case Kind::settle:
      heard_settle(reply, stale, ticket.number, now);
      break;
    case Kind::trip:
      heard_trip(reply, stale, now);
      break;
    case Kind::vote:
      if (!late) heard_vote(reply, stale, ticket.number != 0, now);
      break;
    case Kind::probe:
      heard_probe(reply, late, config, now, out);
      break;
    case Kind::read:
      break;
  }
  // Nobody waits for the next look where the word only missed the epoch, which is known now, or a
  // vote of before was on its way.
  const bool missed = trip_ && !trip_out_ && epoch_ != epoch_before;
  const bool overtook = ticket.kind == Kind::vote && !stale && vote_due(now);
  out.again = out.follow && tripped_at_ && (missed || overtook);
  return out;
}

void FleetPart::heard_force(const Reply* reply, bool stale, std::uint64_t number) {
  if (!force_ || force_->number != number) return;
  force_->out = false;
  if (reply == nullptr) return;
  if (!stale || spoke_since(force_->known, reply->record))
    force_.reset();  // done; or another operator's word is the later one, and is followed
  else
    force_->known = word_of(reply->record);  // the breaker moved by itself
}

void FleetPart::heard_settle(const Reply* reply, bool stale, std::uint64_t number, MonoTime now) {
  const auto found = std::find_if(verdicts_.begin(), verdicts_.end(),
                                  [&](const Verdict& v) { return v.number == number; });
  if (found == verdicts_.end()) return;
  if (reply == nullptr && now < found->till) {
    found->out = false;
    return;
  }
  if (reply == nullptr) ++lost_;
  end(*found, reply != nullptr && !stale);
  verdicts_.erase(found);
}

void FleetPart::heard_trip(const Reply* reply, bool stale, MonoTime now) {
  trip_out_ = false;
  // Another epoch: the fleet changed meanwhile, and what it changed to is seen first; where it is
  // open already, that is what was wanted. A probe's word is over with its round.
  const bool open = record_ && record_->state == State::open;
  if (reply != nullptr && (!stale || trip_epoch_ || open)) trip_.reset();
  if (trip_ && trip_till_ && now >= *trip_till_) {
    trip_.reset();
    ++lost_;
  }
}

void FleetPart::heard_vote(const Reply* reply, bool stale, bool said_bad, MonoTime now) {
  vote_out_ = false;
  if (reply == nullptr) {
    vote_at_ = now + kTryAgain;
    ++lost_;
  } else if (stale) {
    vote_at_ = now + jittered(kPace, 20, random_);
  } else {
    // It came to another mind meanwhile.
    vote_at_ = said_bad == tripped_at_.has_value() ? vote_again_ : now;
    if (!said_bad) well_again_ = false;
  }
}

void FleetPart::heard_probe(const Reply* reply, bool late, const BreakerConfig& config,
                            MonoTime now, Heard& out) {
  const bool granted = reply != nullptr && reply->outcome == Outcome::probe_may_go;
  if (granted) {
    probes_[++last_probe_] = {.number = reply->probe,
                              .epoch = reply->record.epoch,
                              .round = reply->record.round,
                              .till = now + config.probe_deadline};
  }
  if (late) {
    // Nobody waits for it any more: the slot goes back.
    if (granted) settle(last_probe_, Flag::neither, Nanos::zero(), {}, now);
    return;
  }
  ask_out_ = false;
  out.answered = true;
  out.granted = granted;
  out.probe = granted ? last_probe_ : 0;
}

}  // namespace weir::breaker
