#include "guard/cluster_shards.h"

#include <algorithm>

#include <boost/asio/post.hpp>

#include "store/redis/asio_wire.h"
#include "store/redis/store_address.h"

namespace weir::guard {

namespace asio = boost::asio;
namespace redis = store::redis;
using redis::HostPort;

namespace {

// How often one ask follows a redirection.
constexpr std::uint8_t kMostRedirects = 4;
// A map that is out of date is read again within so long, and not at once: a fleet learns of it in
// one moment.
constexpr Nanos kRefreshSpread = std::chrono::milliseconds(100);
// How long a redirection holds against a map that says otherwise: nodes hear of a moved slot by
// gossip.
constexpr Nanos kGossip = std::chrono::seconds(2);
// A master that knows nobody who has a slot is asked again after so long, or an eighth of the
// deadline: the next word that it hears from the new one, within a second or two, tells it.
constexpr Nanos kAskAgain = std::chrono::milliseconds(50);
// How long one is called that a redirection named and no map does.
constexpr Nanos kNamed = std::chrono::seconds(10);

}  // namespace

void ShardObserver::on_store_event(const StoreEvent& event) {
  if (of_ == nullptr) return;
  // "shard H:P: why", or only the shard where there is nothing to say.
  std::string why = prefix_;
  if (!why.empty() && !event.why.empty()) why += ": ";
  why += event.why;
  StoreEvent named = event;
  named.why = why;
  of_->on_store_event(named);
}

ClusterShards::ClusterShards(asio::io_context& io, Options options, Clock& clock,
                             Observer* observer, Ports ports)
    : options_(std::move(options)),
      io_(io),
      clock_(clock),
      observer_(observer),
      ports_(std::move(ports)),
      shown_(std::make_unique<const std::shared_ptr<const std::vector<Shown>>>()),
      overspend_(std::make_shared<ladder::OverspendTable>(
          static_cast<std::size_t>(options_.spec.known_keys), options_.random)),
      refresh_timer_(io),
      park_timer_(io),
      random_(options_.random),
      names_(options_.names),
      watch_(
          watch_options(),
          [this] { return std::make_unique<redis::AsioWire>(io_, redis::Endpoint{}); },
          [this](const HostPort& where) {
            return redis::endpoint_at(options_.spec, options_.url, where);
          },
          clock, *this) {
  nobody_ = &make_shard();
  for (auto& owner : owners_) owner.store(&nobody_->driver(), std::memory_order_relaxed);
  show({{"none", &nobody_->driver(), {}, 0}});
  read_views();
}

ClusterShards::~ClusterShards() = default;

redis::ClusterWatch::Options ClusterShards::watch_options() const {
  const policy::StoreSpec& spec = options_.spec;
  const policy::StoreUrl& url = options_.url;
  redis::ClusterWatch::Options options{.seeds = {},
                                       .patience = spec.connect_timeout,
                                       .credentials = {},
                                       .random_seed = options_.random};
  for (const policy::StoreHost& host : url.hosts) options.seeds.push_back({host.host, host.port});
  if (redis::has_credentials(spec, url)) options.credentials = redis::credentials_of(spec, url);
  return options;
}

void ClusterShards::start() {
  // The owner of the last slot is there in every cluster: so is its file, if any is.
  take_up_view(*nobody_, redis::name_in_slot(redis::kSlots - 1));
  watch_.start();
}

void ClusterShards::started_without() {
  for (const auto& shard : shards_) {
    if (!shard->driver().connection().up) shard->driver().started_without();
  }
}

void ClusterShards::leave(std::function<void()> done) {
  stopping_ = true;
  left_ = std::move(done);
  leaving_ = 1;
  const auto one_left = [this] {
    if (--leaving_ == 0) left_();
  };
  for (const auto& shard : shards_) {
    if (!shard->started) continue;
    if (shard->driver().leave([this, one_left] { asio::post(io_, one_left); })) ++leaving_;
  }
  one_left();
}

void ClusterShards::stop() {
  stopping_ = true;
  watch_.stop();
  for (const auto& shard : shards_) {
    unpark(*shard, true);
    shard->hosted->stop();
  }
}

// ---- Shards
// ---------------------------------------------------------------------------------------

ClusterShards::Shard& ClusterShards::make_shard() {
  Shard& shard = *shards_.emplace_back(std::make_unique<Shard>(observer_));
  ShardDriver::Options driver = ShardDriver::Options::of(options_.spec, random_());
  driver.client.session.cluster = true;
  driver.client.session.names = names_;
  driver.client.credentials = redis::credentials_of(options_.spec, options_.url);
  driver.seat = options_.seat;
  driver.ladder.overspend = overspend_;
  auto wire = std::make_unique<redis::ShardWire>(io_);
  shard.wire = wire.get();
  shard.hosted = std::make_unique<HostedShard>(
      io_, std::move(wire), std::move(driver), options_.keys, clock_, &shard.observer,
      HostedShard::Ports{
          .connection_changed = [this, &shard] { connection_changed(shard); },
          .write_view =
              [&shard](std::string text, std::uint64_t epoch) {
                if (shard.writer) shard.writer->write(std::move(text), epoch);
              },
          .ask_another = ports_.ask_another,
          .follow = [this, &shard](SharedAsk& ask,
                                   std::string_view error) { return follow(shard, ask, error); },
          .wait_for_server = [this, &shard](
                                 SharedAsk& ask,
                                 bool asking) { return wait_for_server(shard, ask, asking); },
          .idle = [this, &shard] { turn_idle(shard); },
          .awaited = [this, &shard] { return !stopping_ && awaited(shard); },
          .give_back_to = [this, &shard](
                              std::string_view error,
                              bool& asking) { return give_back_to(shard, error, asking); }});
  return shard;
}

void ClusterShards::try_names(const std::vector<policy::NameTrial>& names) {
  names_ = names;
  for (const auto& shard : shards_) shard->driver().try_names(names);
}

void ClusterShards::ask(NameQuestion& question) {
  for (const auto& shard : shards_) question.ask(shard->driver());
}

void ClusterShards::start_shard(Shard& shard) {
  if (!std::exchange(shard.started, true)) shard.driver().start();
}

// All that stands in the state folder: one file a shard, named by where its own keys are.
void ClusterShards::read_views() {
  if (!options_.folder) return;
  if (!options_.folder->alone()) return tell_fault(options_.folder->not_alone());
  for (const std::string& name : options_.folder->parts()) {
    if (views_.size() >= kMostShards) break;
    if (auto found = options_.folder->part(name).read()) views_.emplace(name, *std::move(found));
  }
}

// The view of this shard's fleet that stood in the state folder, where it has none yet; and from
// now on views are written there. The disk is the writer's thread's matter.
void ClusterShards::take_up_view(Shard& shard, const std::string& tag) {
  if (!options_.folder) return;
  const auto found = shard.started ? views_.end() : views_.find(tag);
  if (found != views_.end()) {
    if (found->second) {
      shard.driver().start_from(*found->second);
    } else {
      tell_fault(found->second.error().message);
    }
  }
  if (&shard == nobody_) return;
  if (shard.writer) {
    shard.writer->move(options_.folder->part(tag));
    return;
  }
  shard.writer.emplace(options_.folder->part(tag),
                       [this, &shard](std::uint64_t epoch, std::string fault) {
                         asio::post(io_, [this, &shard, epoch, fault = std::move(fault)] {
                           if (!stopping_) shard.driver().view_written(epoch, fault);
                         });
                       });
}

void ClusterShards::show(std::vector<Shown> shown) {
  shown_.publish(std::make_unique<const std::shared_ptr<const std::vector<Shown>>>(
      std::make_shared<const std::vector<Shown>>(std::move(shown))));
}

void ClusterShards::tell_fault(const std::string& why) {
  if (observer_ == nullptr) return;
  observer_->on_store_event({.kind = StoreEvent::Kind::fault, .why = why});
}

// What is at a server that answers is answered before another one takes its place: on a planned
// failover nothing is lost. Asks that come meanwhile wait for that one.
void ClusterShards::aim(Shard& shard, const HostPort& where) {
  if (shard.turn && shard.turn->to == where) return;
  const bool turning = std::exchange(shard.turn, std::nullopt).has_value();
  if (shard.who.address == where) {
    if (turning) unpark(shard, false);  // it stays after all
    return;
  }
  const bool answers = shard.started && shard.driver().connection().up &&
                       shard.driver().ladder().breaker().state() == breaker::ProbeState::closed;
  if (!answers || !shard.driver().busy() || where.host.empty()) return turn(shard, where);
  shard.turn = {where, clock_.mono() + options_.spec.deadline};
  arm_parking_by(shard.turn->by);
}

void ClusterShards::turn(Shard& shard, const HostPort& where) {
  // That the connection before ends is no reason to give up what waits for the next one.
  shard.turn = {where, clock_.mono()};
  shard.who.address = where;
  shard.observer.name(where);
  shard.wire->aim(redis::endpoint_at(options_.spec, options_.url, where));
  if (shard.started) shard.driver().elsewhere();
  shard.turn.reset();
  shard.aimed.reset();
  if (where.host.empty()) return;
  shard.aimed = clock_.mono();
  shard.awaited_until = *shard.aimed + options_.spec.deadline;
}

// Comes from within an answer: the connection it came on is not ended under it.
void ClusterShards::turn_idle(Shard& shard) {
  if (!shard.turn) return;
  asio::post(io_, [this, &shard] {
    if (stopping_ || !shard.turn || shard.driver().busy()) return;
    turn(shard, HostPort(shard.turn->to));
  });
}

// Whether a server is about to be there. One whose first attempt failed is away like any other.
bool ClusterShards::awaited(const Shard& shard) const {
  if (shard.turn) return true;
  return shard.aimed && clock_.mono() < shard.awaited_until && !shard.driver().connection().up;
}

bool ClusterShards::wait_for_server(Shard& shard, SharedAsk& ask, bool asking) {
  if (!shard.turn && !shard.aimed) return false;
  return !stopping_ && awaited(shard) &&
         park(shard, {.ask = &ask, .by = std::nullopt, .asking = asking});
}

bool ClusterShards::park(Shard& shard, Shard::Parked parked) {
  const MonoTime now = clock_.mono();
  if (now >= parked.ask->answer_by || shard.parked.size() >= kMostParked) return false;
  parked.until = std::min(parked.ask->answer_by, now + options_.spec.deadline);
  arm_parking_by(parked.again ? std::min(*parked.again, parked.until) : parked.until);
  shard.parked.push_back(std::move(parked));
  return true;
}

void ClusterShards::on_map(const redis::SlotMap& map) {
  std::vector<ShardIdentity> known;
  for (const auto& shard : shards_) known.push_back(shard->who);
  // Slots that nobody owns are nobody's.
  known[0].active = true;
  const std::vector<std::optional<std::size_t>> places = assign_shards(known, map);
  for (const auto& shard : shards_) shard->who.active = false;
  std::vector<Shard*> of;
  std::vector<Shown> shown;
  for (std::size_t i = 0; i < map.masters.size(); ++i) {
    if (!places[i] && shards_.size() >= kMostShards) {
      of.push_back(nobody_);
      continue;
    }
    Shard& shard = places[i] ? *shards_[*places[i]] : make_shard();
    of.push_back(&shard);
    take_over(shard, map.masters[i]);
    // The first of all is nobody's.
    const std::size_t number = (places[i] ? *places[i] : shards_.size() - 1) - 1;
    shown.push_back({std::to_string(number), &shard.driver(), map.masters[i].node.address,
                     map.masters[i].slots});
  }
  for (std::size_t slot = 0; slot < redis::kSlots; ++slot) {
    const std::uint16_t place = map.owner[slot];
    Shard* const owner = place == redis::SlotMap::kNobody ? nobody_ : of[place];
    owners_[slot].store(&owner->driver(), std::memory_order_release);
  }
  moved_.clear();
  for (const auto& shard : shards_) let_go(*shard);
  const bool whole =
      std::find(map.owner.begin(), map.owner.end(), redis::SlotMap::kNobody) == map.owner.end();
  nobody_->wire->explain(redis::LocalFault::no_master, "some slots have no master");
  if (!whole) {
    start_shard(*nobody_);
    shown.push_back({"none", &nobody_->driver(), {}, 0});
  }
  show(std::move(shown));
  if (ports_.changed) ports_.changed();
}

// Whoever was told that a slot is elsewhere, and finds the map unchanged after all nodes should
// know, was told so by one that has changed its mind.
void ClusterShards::on_same_map() {
  const MonoTime now = clock_.mono();
  for (auto moved = moved_.begin(); moved != moved_.end();) {
    if (now - moved->second.since < kGossip) {
      ++moved;
      continue;
    }
    owners_[moved->first].store(moved->second.before, std::memory_order_release);
    moved = moved_.erase(moved);
  }
  if (!moved_.empty()) return;
  for (const auto& shard : shards_) {
    if (now - shard->named >= kNamed) let_go(*shard);
  }
}

void ClusterShards::on_no_map(redis::LocalFault why, const std::string& text) {
  nobody_->wire->explain(why, text);
  if (nobody_->started) {
    nobody_->driver().elsewhere();
  } else {
    start_shard(*nobody_);
  }
}

void ClusterShards::take_over(Shard& shard, const redis::ClusterMaster& master) {
  shard.who.id = master.node.id;
  shard.who.active = true;
  shard.who.replicas.clear();
  for (const redis::ClusterNode& replica : master.replicas) {
    shard.who.replicas.push_back(replica.id);
  }
  if (shard.who.highest_slot != master.highest_slot) {
    shard.who.highest_slot = master.highest_slot;
    const std::string tag = redis::name_in_slot(master.highest_slot);
    shard.driver().name_shard(tag);
    take_up_view(shard, tag);
  }
  aim(shard, master.node.address);
  start_shard(shard);
}

// A master without slots may get some; one that is gone is not called for ever.
void ClusterShards::let_go(Shard& shard) {
  if (&shard == nobody_ || shard.who.active || !shard.started) return;
  if (shard.driver().connection().up || !shard.parked.empty()) return;
  if (shard.who.address.host.empty()) return;
  shard.who.id.clear();
  aim(shard, {});
}

void ClusterShards::connection_changed(Shard& shard) {
  const ShardDriver::Connection now = shard.driver().connection();
  if (shard.aimed && (now.up || now.since > *shard.aimed)) shard.aimed.reset();
  unpark(shard, false);
  if (!now.up && shard.started && !shard.who.address.host.empty()) {
    refresh_soon();
  }
  if (ports_.changed) ports_.changed();
}

std::optional<redis::Endpoint> ClusterShards::where(std::uint16_t slot) const {
  const ShardDriver* const owner = &owner_now(slot);
  for (const auto& shard : shards_)
    if (&shard->driver() == owner) return shard->hosted->where();
  return std::nullopt;
}

void ClusterShards::refresh_soon() {
  if (stopping_ || std::exchange(refreshing_, true)) return;
  const auto spread = static_cast<std::uint64_t>(kRefreshSpread.count());
  refresh_timer_.expires_after(Nanos(static_cast<std::int64_t>(random_() % spread)));
  refresh_timer_.async_wait([this](const boost::system::error_code& error) {
    refreshing_ = false;
    if (!error && !stopping_) watch_.refresh();
  });
}

// A node said that another one owns the slot. Whether the ask is that one's now.
bool ClusterShards::follow(Shard& from, SharedAsk& ask, std::string_view error) {
  if (redis::is_unserved(error)) {
    if (stopping_) return false;
    refresh_soon();
    const MonoTime again = clock_.mono() + std::min(kAskAgain, options_.spec.deadline / 8);
    return park(from, {.ask = &ask, .by = std::nullopt, .again = again});
  }
  auto redirect = redis::read_redirect(error);
  Shard* const to = redirect ? named_by(from, *redirect) : nullptr;
  if (to == nullptr) return false;
  if (++ask.redirects > kMostRedirects || clock_.mono() >= ask.answer_by) return false;
  const Shard::Parked parked{.ask = &ask, .by = *std::move(redirect)};
  if (to != &from && to->driver().connection().up && !to->turn) {
    send_on(*to, parked);
    return true;
  }
  // One that was just named is connected to in a moment; one that is away is not waited for.
  if (to->who.active && !awaited(*to)) return false;
  return park(*to, parked);
}

// The same for what is given back. One that is away is not waited for: that is lost.
ShardDriver* ClusterShards::give_back_to(Shard& from, std::string_view error, bool& asking) {
  auto redirect = redis::read_redirect(error);
  Shard* const to = redirect ? named_by(from, *redirect) : nullptr;
  if (to == nullptr) return nullptr;
  asking = redirect->asking;
  return &to->driver();
}

// Absent: nobody who can be asked now.
ClusterShards::Shard* ClusterShards::named_by(Shard& from, redis::Redirect& redirect) {
  if (stopping_) return nullptr;
  if (redirect.where.host.empty()) redirect.where.host = from.who.address.host;
  refresh_soon();
  Shard* const to = shard_at(redirect.where);
  return to == &from && !awaited(from) ? nullptr : to;
}

// Whoever can be asked has the slot from now on, where it was moved there.
void ClusterShards::send_on(Shard& to, const Shard::Parked& ask) {
  if (ask.by && !ask.by->asking) {
    auto& owner = owners_[ask.by->slot];
    if (ShardDriver* const before = owner.load(std::memory_order_relaxed); before != &to.driver()) {
      moved_.try_emplace(ask.by->slot, Moved{clock_.mono(), before});
      owner.store(&to.driver(), std::memory_order_release);
    }
  }
  to.driver().send(*ask.ask, ask.by ? ask.by->asking : ask.asking);
}

ClusterShards::Shard* ClusterShards::shard_at(const HostPort& where) {
  Shard* found = nullptr;
  for (const auto& shard : shards_) {
    const HostPort& there = shard->turn ? shard->turn->to : shard->who.address;
    if (there == where) found = shard.get();
  }
  if (found == nullptr) {
    // One that is nobody's any more, before another is made.
    for (const auto& shard : shards_) {
      if (shard.get() != nobody_ && !shard->who.active && shard->who.address.host.empty()) {
        found = shard.get();
      }
    }
    if (found == nullptr && shards_.size() >= kMostShards) return nullptr;
    if (found == nullptr) found = &make_shard();
    aim(*found, where);
    start_shard(*found);
  }
  found->named = clock_.mono();
  return found;
}

void ClusterShards::unpark(Shard& shard, bool all_late) {
  const MonoTime now = clock_.mono();
  std::vector<Shard::Parked> asks;
  asks.swap(shard.parked);
  const bool up = !shard.turn && shard.driver().connection().up;
  // Its first connection failed: away like any other.
  const bool away = !up && shard.who.active && !awaited(shard);
  for (const Shard::Parked& parked : asks) {
    if (all_late || away || now >= parked.until) {
      give_up(shard, parked);
    } else if (up && (!parked.again || now >= *parked.again)) {
      send_on(shard, parked);
    } else {
      shard.parked.push_back(parked);
    }
  }
  shard.driver().go_on_giving_back();
}

// As where the store was asked and gave no answer in time.
void ClusterShards::give_up(Shard& shard, const Shard::Parked& parked) {
  SharedAsk& ask = *parked.ask;
  if (parked.again && !stopping_) return shard.driver().never_served(ask);
  if (stopping_ || !ports_.ask_another || !ports_.ask_another(ask))
    shard.driver().decide_without(ask);
}

// The next time at which somebody who waits is due.
void ClusterShards::arm_parking() {
  const MonoTime now = clock_.mono();
  std::optional<MonoTime> first;
  for (const auto& shard : shards_) {
    for (const Shard::Parked& parked : shard->parked) {
      // Whose time has come already waits for a connection.
      MonoTime due = parked.until;
      if (parked.again && *parked.again > now) due = std::min(due, *parked.again);
      first = first ? std::min(*first, due) : due;
    }
    if (shard->turn && !stopping_)
      first = first ? std::min(*first, shard->turn->by) : shard->turn->by;
  }
  if (first) arm_parking_by(*first);
}

// Comes with every ask that is parked: what is armed for an earlier time stays as it is.
void ClusterShards::arm_parking_by(MonoTime by) {
  if (parking_armed_ && *parking_armed_ <= by) return;
  parking_armed_ = by;
  park_timer_.expires_at(std::chrono::time_point_cast<std::chrono::steady_clock::duration>(by));
  park_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    parking_armed_.reset();
    for (const auto& shard : shards_) {
      if (shard->turn && !stopping_ && clock_.mono() >= shard->turn->by)
        turn(*shard, HostPort(shard->turn->to));
      unpark(*shard, stopping_);
    }
    arm_parking();
  });
}

}  // namespace weir::guard
