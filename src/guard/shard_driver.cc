#include "guard/shard_driver.h"

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "limit/client_skew.h"
#include "render/text.h"
#include "store/redis/script.h"

namespace weir::guard {

namespace redis = store::redis;
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

}  // namespace

ShardDriver::Options ShardDriver::Options::of(const policy::StoreSpec& spec, std::uint64_t random) {
  // Seeds drawn from one, in the order in which they stand: what they seed must not run in step.
  return {.deadline = spec.deadline,
          .worker = next_random(random),
          .client_clock = spec.client_clock,
          .ladder = {.breaker = breaker_config(spec),
                     .known_keys = static_cast<std::size_t>(spec.known_keys),
                     .random_seed = next_random(random)},
          .client = {.session = {.hang_after = std::max<Nanos>(spec.deadline * 10, kLeastHang),
                                 .random_seed = next_random(random)},
                     .connect_timeout = spec.connect_timeout,
                     // No slower than the breaker probes: a store is not there before its
                     // connection is.
                     .max_backoff = std::min(kMostBackoff, spec.breaker.max_cooldown),
                     .random_seed = next_random(random)}};
}

ShardDriver::ShardDriver(Options options, redis::KeySpace keys, redis::Wire& wire, Clock& clock,
                         Observer* observer, Host& host)
    : options_(std::move(options)),
      clock_(clock),
      observer_(observer),
      host_(host),
      ladder_(options_.ladder),
      client_(options_.client, std::move(keys), wire, clock, *this),
      give_backs_(client_, clock, counters_, *this),
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
  give_backs_.stop();
  client_.stop();
}

// ---- From any thread
// ------------------------------------------------------------------------------

bool ShardDriver::begin(SharedAsk& ask) noexcept {
  ask.asked_of = this;
  if (ask.gives_back) return true;
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
    if (ask.counts_at(*this)) counters_.count_without();
    ask.decided(ladder_.without(ask.request, now, ask.findings()), now.store);
  }
  return false;
}

void ShardDriver::no_room(SharedAsk& ask) noexcept {
  if (ask.gives_back) {
    counters_.count_give_back(false);
    ask.decided({.rung = Rung::policy, .retry_after = {}}, store_time());
    return;
  }
  counters_.count_no_room();
  counters_.count_error(redis::row_of(redis::LocalFault::saturated));
  decide_without(ask);
}

void ShardDriver::decide_without(SharedAsk& ask) noexcept {
  if (ask.counts_at(*this)) counters_.count_without();
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
  const auto ms = [](Nanos length) {
    return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(length).count());
  };
  const auto ms_since = [&](MonoTime then) { return ms(clock_.mono() - then); };
  out += ",\"state_for_ms\":" + ms_since(ladder_.breaker().since());
  const std::optional<Nanos> away = away_for();
  out += std::string(",\"away\":") + (away ? "true" : "false");
  if (away) out += ",\"away_for_ms\":" + ms(*away);
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
  out += std::string(",\"connected\":") + (connection.up ? "true" : "false");
  if (connection.up || !connection.trouble.empty()) {
    out += connection.up ? ",\"connected_for_ms\":" : ",\"disconnected_for_ms\":";
    out += ms_since(connection.since);
  }
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

}  // namespace weir::guard
