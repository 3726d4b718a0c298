#include "guard/fleet_seat.h"

#include <utility>

#include "render/text.h"

namespace weir::guard {

namespace redis = store::redis;
using ladder::Division;
using ladder::FleetNews;

namespace {

FleetNews news_of(const redis::FleetReply& fleet) {
  FleetNews news;
  news.outcome = fleet.outcome == redis::FleetReply::Outcome::ousted ? FleetNews::Outcome::ousted
                 : fleet.outcome == redis::FleetReply::Outcome::full
                     ? FleetNews::Outcome::full
                     : FleetNews::Outcome::announced;
  news.history = fleet.history;
  news.epoch = fleet.epoch;
  news.now = fleet.now;
  for (const redis::FleetMember& m : fleet.members) {
    news.members.push_back({m.name, m.joined_epoch, m.seen_epoch, m.lease_until});
  }
  return news;
}

void append_ms(std::string& out, Nanos time) {
  out += std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
}

Division first_division(const FleetSeat::Options& options) {
  if (options.of) return Division::fixed(*options.of, options.index);
  if (options.role == FleetRole::guest) return Division::none("takes no part in the fleet");
  return Division::none("has not read the fleet's members yet");
}

}  // namespace

FleetSeat::FleetSeat(Options options, Ports ports, redis::RedisClient& client,
                     ladder::ShardLadder& ladder, Clock& clock)
    : options_(std::move(options)),
      ports_(std::move(ports)),
      client_(client),
      ladder_(ladder),
      clock_(clock),
      keeper_({.self = options_.name, .writes = options_.writes, .spread = options_.process}) {
  ladder_.divide(first_division(options_));
  settled_ = options_.role == FleetRole::guest;
}

// ---- Starting and leaving
// -----------------------------------------------------------------------

void FleetSeat::start_from(const ladder::MembershipView& view) {
  if (options_.role != FleetRole::worker) return;
  if (const auto why_not = keeper_.start_from(view, clock_.now())) {
    remember(nullptr, "the state folder's view is not used: " + *why_not);
    return;
  }
  apply(true);
  std::lock_guard lock(mutex_);
  shown_ = keeper_.view();
  from_folder_ = true;
  read_ = clock_.mono() - (clock_.now() - view.read_at);
}

void FleetSeat::started_without() {
  if (options_.role != FleetRole::worker) return;
  const auto division = ladder_.division();
  if (!division->has_part()) say_part(*division);
}

bool FleetSeat::leave(bool owes, std::function<void()> done) {
  const bool first_time = !std::exchange(left_, true);
  keeper_.store_away();
  ladder_.divide(Division::none("has left the fleet"));
  if (options_.role != FleetRole::worker || options_.name_lasts || owes || !first_time) {
    return false;
  }
  // One at a time is on its way. What comes back also says whether the store knows this process.
  if (keeper_.beat_out()) {
    leaves_ = std::move(done);
    return true;
  }
  if (!may_say_leave()) return false;
  say_leave(std::move(done));
  return true;
}

bool FleetSeat::may_say_leave() const {
  return keeper_.announced() && !keeper_.ousted() && client_.ready() &&
         ladder_.breaker().state() == breaker::ProbeState::closed;
}

void FleetSeat::say_leave(std::function<void()> done) {
  client_.beat(
      {.kind = redis::Beat::Kind::leave,
       .name = options_.name,
       .incarnation = options_.process,
       .seen_epoch = 0,
       .lease = {}},
      kPatience,
      [done = std::move(done)](const redis::ErrorRow*, const redis::FleetReply*) { done(); });
}

void FleetSeat::say_leave_after_beat() {
  auto done = std::exchange(leaves_, nullptr);
  if (!done) return;
  if (may_say_leave()) {
    say_leave(std::move(done));
  } else {
    done();
  }
}

// ---- Beats
// --------------------------------------------------------------------------------------

void FleetSeat::store_there() {
  if (options_.role != FleetRole::worker || left_) return;
  keeper_.store_there(clock_.mono());
  poll();
}

void FleetSeat::store_away() {
  keeper_.store_away();
}

void FleetSeat::poll() {
  const auto due = keeper_.poll(clock_.mono());
  if (!due) return;
  client_.beat({.kind = due->first ? redis::Beat::Kind::first : redis::Beat::Kind::again,
                .name = options_.name,
                .incarnation = options_.process,
                .seen_epoch = due->seen_epoch,
                .lease = due->lease},
               kPatience, [this](const redis::ErrorRow* error, const redis::FleetReply* fleet) {
                 heard(error, fleet);
               });
}

void FleetSeat::heard(const redis::ErrorRow* error, const redis::FleetReply* fleet) {
  if (error != nullptr || fleet == nullptr) {
    keeper_.failed(clock_.mono());
    settled_.store(true, std::memory_order_release);
    remember(nullptr, error != nullptr ? error->meaning : "no answer");
    ports_.rearm();
    say_leave_after_beat();
    return;
  }
  if (fleet->repaired) {
    ports_.tell({.kind = StoreEvent::Kind::fault,
                 .why = "something else stood where the fleet's members are kept; it was thrown "
                        "away, and every worker announces itself anew"});
  }
  const bool lost = keeper_.view() && keeper_.view()->history != fleet->history;
  const bool changed = keeper_.answered(news_of(*fleet), clock_.mono());
  remember(fleet, {});
  if (!left_) apply(changed);
  if (auto text = keeper_.to_write()) ports_.write(*std::move(text), keeper_.view()->epoch);
  settled_.store(true, std::memory_order_release);
  if (lost) ports_.lost();
  ports_.rearm();
  say_leave_after_beat();
}

void FleetSeat::written(std::uint64_t epoch, const std::string& fault) {
  if (!fault.empty()) {
    ports_.tell({.kind = StoreEvent::Kind::fault, .why = fault});
    remember(nullptr, fault);
  }
  keeper_.written(epoch, clock_.mono());
  ports_.rearm();
}

void FleetSeat::apply(bool changed) {
  if (!changed) return;
  const auto& view = keeper_.view();
  if (options_.of) {
    const std::uint32_t counted = view ? view->counted(view->read_at) : 0;
    if (counted > *options_.of && !said_too_many_) {
      const std::string why = std::to_string(counted) +
                              " workers announce themselves, and the policy says `workers: {of: " +
                              std::to_string(*options_.of) +
                              "}`: their parts sum to more than the limit";
      ports_.tell({.kind = StoreEvent::Kind::fault, .why = why});
    }
    said_too_many_ = counted > *options_.of;
    return;
  }
  Division division = keeper_.division();
  // Waiting to be seen by the others is the ordinary way in, and not worth a line.
  const bool waits = view && !keeper_.ousted() && view->member(options_.name) != nullptr;
  if (division.has_part() ? said_no_part_ : !waits) say_part(division);
  ladder_.divide(std::move(division));
}

void FleetSeat::say_part(const Division& division) {
  if (!options_.matters || (said_no_part_ && !division.has_part())) return;
  said_no_part_ = !division.has_part();
  if (said_no_part_) {
    ports_.tell({.kind = StoreEvent::Kind::no_part, .why = division.why_none()});
  } else {
    ports_.tell({.kind = StoreEvent::Kind::part, .workers = division.workers()});
  }
}

// ---- What is shown
// ------------------------------------------------------------------------------

void FleetSeat::remember(const redis::FleetReply* fleet, std::string_view fault) {
  std::lock_guard lock(mutex_);
  last_fault_ = fault;
  if (fleet == nullptr) return;
  shown_ = keeper_.view();
  from_folder_ = false;
  read_ = clock_.mono();
}

WorkerPart FleetSeat::part() const {
  const auto division = ladder_.division();
  return {.worker = options_.role == FleetRole::worker ? options_.name : std::string(),
          .has_part = division->has_part(),
          .workers = division->workers(),
          .why_none = division->why_none()};
}

std::optional<ladder::MembershipView> FleetSeat::view() const {
  std::lock_guard lock(mutex_);
  return shown_;
}

void FleetSeat::append_json(std::string& out) const {
  const WorkerPart part = this->part();
  if (!part.worker.empty()) {
    out += ",\"worker\":";
    render::append_json_string(out, part.worker);
  }
  out += ",\"workers\":" + std::to_string(part.workers);
  out += std::string(",\"has_part\":") + (part.has_part ? "true" : "false");
  if (!part.has_part) {
    out += ",\"why_no_part\":";
    render::append_json_string(out, part.why_none);
  }
  std::lock_guard lock(mutex_);
  if (!shown_ && last_fault_.empty()) return;
  out += ",\"membership\":{";
  if (shown_) {
    out +=
        std::string("\"from\":\"") + (from_folder_ ? "state_folder" : "store") + "\",\"age_ms\":";
    append_ms(out, clock_.mono() - read_);
    out += ",\"epoch\":" + std::to_string(shown_->epoch) + ",\"members\":[";
    for (const ladder::Member& member : shown_->members) {
      if (!out.ends_with('[')) out += ',';
      out += "{\"name\":";
      render::append_json_string(out, member.name);
      out += ",\"lease_ms\":";
      append_ms(out, member.lease_until - shown_->read_at);
      out += std::string(",\"has_seen_all\":") +
             (member.seen_epoch >= shown_->epoch ? "true}" : "false}");
    }
    out += ']';
  }
  if (!last_fault_.empty()) {
    out += shown_ ? ",\"last_error\":" : "\"last_error\":";
    render::append_json_string(out, last_fault_);
  }
  out += '}';
}

}  // namespace weir::guard
