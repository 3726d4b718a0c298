#include "guard/circuit_desk.h"

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "breaker/backoff.h"
#include "breaker/breaker_core.h"
#include "store/redis/topology/key_slot.h"

namespace weir::guard {

namespace redis = store::redis;

namespace {

// Records in one reading.
constexpr std::size_t kMostAtOnce = 64;
// Nobody waits for a vote or a verdict.
constexpr Nanos kUnhurried = std::chrono::seconds(1);

}  // namespace

CircuitDesk::CircuitDesk(StoreLine& line, redis::KeySpace keys, Clock& clock, Nanos deadline,
                         std::uint64_t random, std::function<void(MonoTime)> wake_at)
    : line_(line),
      keys_(std::move(keys)),
      clock_(clock),
      deadline_(deadline),
      silence_(std::max(kSilence, 2 * deadline)),
      changes_key_(channel(keys_)),
      slot_(redis::key_slot(changes_key_)),
      wake_at_(std::move(wake_at)),
      whos_(random),
      random_(~random) {}

// ---- From any thread

CircuitDesk::List CircuitDesk::list() const {
  std::lock_guard lock(mutex_);
  return list_;
}

void CircuitDesk::watch(std::vector<Breaker> breakers) {
  auto next = std::make_shared<std::vector<Watched>>();
  for (const Breaker& breaker : breakers)
    next->push_back(
        {BreakerCore::of(breaker), keys_.meta({}, "circuit/" + std::string(breaker.name()))});
  List before;
  std::vector<std::uint64_t> whos;
  {
    std::lock_guard lock(mutex_);
    before = std::exchange(list_, next);
    for (std::size_t i = 0; i < next->size(); ++i) whos.push_back(next_random(whos_));
  }
  // Outside the lock: whoever waited for a probe hears that there is none, and may call again.
  for (const Watched& old : *before) {
    const bool stays = std::any_of(next->begin(), next->end(),
                                   [&](const Watched& w) { return w.core == old.core; });
    if (!stays) old.core->share(nullptr, 0);
  }
  for (std::size_t i = 0; i < next->size(); ++i) (*next)[i].core->share(this, whos[i]);
  if (next->empty()) {
    if (hints_ != nullptr) line_.post([this] { tend_hints(); });
    return;
  }
  line_.post([this] {
    read_again_ = {};
    on_wake();
  });
}

void CircuitDesk::poke() noexcept {
  if (poked_.exchange(true, std::memory_order_acq_rel)) return;
  line_.post([this] {
    poked_.store(false, std::memory_order_release);
    tell_all();
  });
}

bool CircuitDesk::answers() const noexcept {
  const std::int64_t at = heard_at_.load(std::memory_order_acquire);
  return at != INT64_MIN && clock_.mono().time_since_epoch().count() - at < silence_.count();
}

// ---- The loop's

void CircuitDesk::heard() {
  heard_at_.store(clock_.mono().time_since_epoch().count(), std::memory_order_release);
}

void CircuitDesk::line_changed() {
  const bool up = line_.up(slot_);
  if (up == was_up_) return;
  was_up_ = up;
  if (!up) heard_at_.store(INT64_MIN, std::memory_order_release);
  read_again_ = {};
  on_wake();
}

void CircuitDesk::tend_hints() {
  if (hints_ == nullptr) return;
  const bool wanted = !list()->empty() && line_.up(slot_);
  hints_->tend(wanted ? line_.where(slot_) : std::nullopt);
}

void CircuitDesk::hinted(std::string_view news) {
  const List of = list();
  // What was read already was told by a message that took longer than the reading.
  if (of->empty() || !line_.up(slot_) || (!looking_ && news == changes_)) return;
  hint_ = news;
  // What is being read may be older than the hint.
  if (looking_) return;
  const MonoTime now = clock_.mono();
  if (now < next_hinted()) {
    // Its own look is not put off: that one serves the hint, too.
    if (next_hinted() < next_look_) wake_at_(next_hinted());
    return;
  }
  hint_taken(now);
  // Nothing is gained by asking first whether anything has changed, unless that saves much.
  looking_ = true;
  if (of->size() <= kMostAtOnce)
    read_all();
  else
    look();
}

void CircuitDesk::hint_taken(MonoTime now) {
  hint_.reset();
  hints_paid_ = std::max(hints_paid_, now) + kHintPace;
}

void CircuitDesk::look_again() {
  looking_ = false;
  if (const auto hint = std::exchange(hint_, std::nullopt)) hinted(*hint);
}

void CircuitDesk::on_wake() {
  tend_hints();
  if (list()->empty()) return;
  tell_all();
  if (!looking_ && hint_) hint_taken(clock_.mono());
  if (line_.up(slot_) && !looking_) look();
  arm();
}

void CircuitDesk::arm() {
  next_look_ = clock_.mono() + breaker::jittered(kPoll, 20, random_);
  wake_at_(next_look_);
}

void CircuitDesk::tell_all() {
  const List of = list();
  for (const Watched& watched : *of) tell(watched);
}

void CircuitDesk::tell(const Watched& watched) {
  for (const auto& due : watched.core->fleet_due(line_.up(slot_), clock_.mono())) {
    const bool hurry = due.action.kind == redis::CircuitAction::Kind::probe;
    line_.call(slot_,
               redis::circuit_call(due.action, watched.core->config(), watched.key, changes_key_),
               hurry ? deadline_ : kUnhurried,
               [this, core = watched.core, ticket = due.ticket, asked = clock_.mono()](
                   const redis::ErrorRow* error, const redis::Reply* reply, bool late) {
                 redis::CircuitReply read;
                 const bool good =
                     error == nullptr && reply != nullptr && redis::read_circuit(*reply, read);
                 if (good) heard();
                 core->fleet_heard(ticket, good ? &read : nullptr, late, clock_.mono(), asked);
               });
  }
}

// One GET says whether anything has changed.
void CircuitDesk::look() {
  looking_ = true;
  if (clock_.mono() >= read_again_) return read_all();
  line_.call(slot_, {.script = nullptr, .keys = {}, .arguments = {"GET", changes_key_}}, kUnhurried,
             [this](const redis::ErrorRow* error, const redis::Reply* reply, bool late) {
               looked(error, reply, late);
             });
}

void CircuitDesk::looked(const redis::ErrorRow* error, const redis::Reply* reply, bool late) {
  if (late) return;
  if (error != nullptr || reply == nullptr) {
    looking_ = false;
    return;
  }
  const redis::ReplyNode& root = reply->root();
  const std::string now(root.type == redis::ReplyType::string ? reply->text(root)
                                                              : std::string_view());
  heard();
  if (now == changes_) return look_again();
  read_all();
}

void CircuitDesk::read_all() {
  read_again_ = clock_.mono() + breaker::jittered(kRead, 20, random_);
  const List of = list();
  if (of->empty()) {
    looking_ = false;
    return;
  }
  for (std::size_t from = 0; from < of->size(); from += kMostAtOnce) read(of, from);
}

void CircuitDesk::read(const List& of, std::size_t from) {
  const std::size_t count = std::min(kMostAtOnce, of->size() - from);
  std::vector<std::string> keys{changes_key_};
  for (std::size_t i = 0; i < count; ++i) keys.push_back((*of)[from + i].key);
  line_.call(
      slot_, redis::circuits_call(std::move(keys)), kUnhurried,
      [this, of, from, count, asked = clock_.mono()](const redis::ErrorRow* error,
                                                     const redis::Reply* reply, bool late) {
        if (late) return;
        redis::CircuitsReply read;
        if (error != nullptr || reply == nullptr || !redis::read_circuits(*reply, count, read)) {
          read_again_ = {};
          looking_ = false;
          return;
        }
        heard();
        // What changes while the rest is read is found again by the next look.
        if (from == 0) changes_ = read.changes;
        for (std::size_t i = 0; i < count; ++i)
          (*of)[from + i].core->fleet_read(read.records[i], read.now, clock_.mono(), asked);
        look_again();
      });
}

}  // namespace weir::guard
