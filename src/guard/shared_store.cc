#include "guard/shared_store.h"

#include <atomic>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "policy/load.h"
#include "policy/store_url.h"
#include "render/text.h"
#include "store/redis/asio_wire.h"
#include "store/redis/redis_client.h"

namespace weir::guard {

namespace asio = boost::asio;
namespace redis = store::redis;
using breaker::ProbeBreaker;
using ladder::LadderVerdict;
using ladder::Moment;

namespace {

// Says what `what` needs and how to get it, where this release cannot do it on a shared store.
Error not_here(std::string what) {
  return Error{ErrorCode::failed_precondition, "store: " + std::move(what)};
}

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

std::uint64_t random_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

Result<std::string> read_password(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line) || line.empty()) {
    return Error{
        ErrorCode::invalid_argument,
        "store.password_file: " + path + " holds no password in its first line, or cannot be read"};
  }
  return line;
}

redis::Endpoint endpoint_of(const policy::StoreUrl& url) {
  if (url.kind == policy::StoreKind::unix_socket)
    return {.host = {}, .port = 0, .unix_path = url.path};
  return {.host = url.hosts.front().host, .port = url.hosts.front().port, .unix_path = {}};
}

std::function<Result<redis::Credentials>()> credentials_of(const policy::StoreSpec& spec,
                                                           const policy::StoreUrl& url) {
  const std::string user = spec.username.empty() ? url.username : spec.username;
  return
      [user, password = url.password, file = spec.password_file]() -> Result<redis::Credentials> {
        if (file.empty()) return redis::Credentials{user, password};
        auto read = read_password(file);
        if (!read) return read.error();
        return redis::Credentials{user, std::move(*read)};
      };
}

}  // namespace

// The thread that speaks to the server, and what all threads share.
class SharedStore::Impl final : private redis::ClientEvents, private redis::AskHandler {
 public:
  Impl(const policy::StoreSpec& spec, const policy::StoreUrl& url, redis::KeySpace keys,
       Clock& clock, render::Metrics& metrics, Observer* observer)
      : deadline_(spec.deadline),
        worker_(random_number()),
        clock_(clock),
        metrics_(metrics),
        observer_(observer),
        ladder_({.breaker = breaker_config(spec),
                 .known_keys = static_cast<std::size_t>(spec.known_keys),
                 .random_seed = random_number()}),
        timer_(io_),
        wire_(io_, endpoint_of(url)),
        client_({.session = {.database = url.database,
                             .hang_after = std::max<Nanos>(spec.deadline * 10, kLeastHang),
                             .random_seed = random_number()},
                 .connect_timeout = spec.connect_timeout,
                 .credentials = credentials_of(spec, url),
                 .random_seed = random_number()},
                std::move(keys), wire_, clock, *this) {
    if (spec.workers.of)
      ladder_.divide(ladder::Division::fixed(*spec.workers.of, spec.workers.index));
    source_ = metrics_.add_source([this](render::Exposition& out) { write_metrics(out); });
  }

  ~Impl() override {
    metrics_.remove_source(source_);
    if (thread_.joinable()) {
      asio::post(io_, [this] {
        stopping_ = true;
        take_in();
        client_.stop();  // answers everything that waits
        io_.stop();      // timers that are still armed must not keep us here
      });
      thread_.join();
    }
  }

  void start() {
    thread_ = std::thread([this] {
      client_.start();
      io_.run();
    });
  }

  // Waits for the first self-test, at most so long. Absent: it passed.
  std::optional<std::string> wait_ready(Nanos patience) {
    std::unique_lock lock(ready_mutex_);
    const bool heard =
        ready_changed_.wait_for(lock, patience, [&] { return connected_ || !trouble_.empty(); });
    if (connected_) return std::nullopt;
    return heard ? trouble_ : std::string("did not answer within the connect timeout");
  }

  void decide(SharedAsk& ask) noexcept {
    LadderVerdict verdict;
    const Moment now = moment();
    if (!ladder_.begin(ask.request, now, ask.findings(), verdict)) {
      ask.decided(verdict, now.store);
      return;
    }
    switch (queue(ask)) {
      case Queued::full:
        verdict = ladder_.without(ask.request, now, ask.findings());
        ask.decided(verdict, now.store);
        return;
      case Queued::behind_others:
        return;
      case Queued::first:
        break;
    }
    asio::post(io_, [this] { take_in(); });
  }

  LadderVerdict without(const ladder::LadderRequest& request,
                        std::span<store::Finding> findings) noexcept {
    return ladder_.without(request, moment(), findings);
  }

  Moment moment() const noexcept {
    const MonoTime mono = clock_.mono();
    const std::int64_t offset = store_offset_ns_.load(std::memory_order_relaxed);
    if (offset == kUnknownOffset) return {clock_.now(), mono};
    return {Instant{mono.time_since_epoch() + Nanos(offset)}, mono};
  }

  Nanos deadline() const noexcept { return deadline_; }
  bool answering() const noexcept { return ladder_.breaker().state() != breaker::ProbeState::open; }

  std::uint64_t known_keys() const { return ladder_.known().size(); }

  std::string state_json() const {
    std::string out = "{\"state\":";
    render::append_json_string(out, breaker::to_string(ladder_.breaker().state()));
    const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(
        clock_.mono() - ladder_.breaker().since());
    const auto division = ladder_.division();
    out += ",\"state_for_ms\":" + std::to_string(since.count());
    out += ",\"workers\":" + std::to_string(division->workers());
    out += std::string(",\"has_part\":") + (division->has_part() ? "true" : "false");
    out += ",\"known_keys\":" + std::to_string(ladder_.known().size());
    out += ",\"owed_units\":" + std::to_string(ladder_.known().owed_units());
    std::lock_guard lock(ready_mutex_);
    out += std::string(",\"connected\":") + (connected_ ? "true" : "false");
    if (!trouble_.empty()) {
      out += ",\"last_error\":";
      render::append_json_string(out, trouble_);
    }
    if (!version_.empty()) {
      out += ",\"server_version\":";
      render::append_json_string(out, version_);
    }
    out += "}";
    return out;
  }

 private:
  static constexpr std::int64_t kUnknownOffset = INT64_MIN;
  static constexpr Nanos kLeastHang = std::chrono::milliseconds(200);
  // How long a probe may take beyond the deadline that asks have: none. A store that answers later
  // than that would fail every ask all the same.

  // An ask that is at the server, and what it told of what is owed.
  struct Flight {
    SharedAsk* ask = nullptr;
    std::array<std::optional<redis::Owed>, store::kMaxCounters> owed;
    std::array<ladder::OwedUnits, store::kMaxCounters> told;
    bool tells = false;
  };

  enum class Queued : std::uint8_t { full, first, behind_others };

  Queued queue(SharedAsk& ask) {
    std::lock_guard lock(intake_mutex_);
    if (intake_.size() >= kMaxQueued) return Queued::full;
    intake_.push_back(&ask);
    return std::exchange(woken_, true) ? Queued::behind_others : Queued::first;
  }

  // ---- the store's thread ---------------------------------------------------------------------

  void take_in() {
    {
      std::lock_guard lock(intake_mutex_);
      taken_.swap(intake_);
      woken_ = false;
    }
    for (SharedAsk* ask : taken_) send(*ask);
    taken_.clear();
  }

  void send(SharedAsk& ask) {
    const Moment now = moment();
    const std::uint64_t token = take_flight(ask);
    Flight& flight = *flights_[token];
    tell_owed(flight, now);
    const std::span<const store::Counter> counters = ask.request.counters;
    client_.ask(counters,
                {.answer_by = std::min(ask.answer_by, now.mono + deadline_),
                 .vote_by = now.mono + deadline_,
                 .loaded_at = ask.loaded_at,
                 .generation = ladder_.breaker().generation(),
                 .now = {},
                 .not_after = {},
                 .owed = flight.tells ? std::span<const std::optional<redis::Owed>>(
                                            flight.owed.data(), counters.size())
                                      : std::span<const std::optional<redis::Owed>>{},
                 .known = {}},
                *this, token);
  }

  void tell_owed(Flight& flight, const Moment& now) {
    flight.tells = false;
    const std::span<const store::Counter> counters = flight.ask->request.counters;
    for (std::size_t i = 0; i < counters.size(); ++i) {
      flight.owed[i].reset();
      const std::optional<ladder::OwedUnits> owed = ladder_.known().owed(counters[i], now.store);
      if (!owed) continue;
      flight.tells = true;
      flight.told[i] = *owed;
      flight.owed[i] = redis::Owed{
          .worker = worker_,
          .outage = owed->outage,
          .window = owed->window,
          .units = owed->units,
          .standing = owed->standing,
          .bound = 2 * std::uint64_t{counters[i].numbers->limit} + counters[i].numbers->burst};
    }
  }

  std::uint64_t take_flight(SharedAsk& ask) {
    if (free_flights_.empty()) {
      flights_.push_back(std::make_unique<Flight>());
      free_flights_.push_back(flights_.size() - 1);
    }
    const std::uint64_t token = free_flights_.back();
    free_flights_.pop_back();
    flights_[token]->ask = &ask;
    return token;
  }

  void on_answer(std::uint64_t token, const redis::Answer& answer) override {
    Flight& flight = *flights_[token];
    SharedAsk& ask = *flight.ask;
    free_flights_.push_back(token);
    if (!answer.decided()) {
      count_error(*answer.error);
      const Moment now = moment();
      ask.decided(ladder_.without(ask.request, now, ask.findings()), now.store);
      return;
    }
    learn(ask.request.counters, answer);
    if (flight.tells) {
      for (std::size_t i = 0; i < ask.request.counters.size(); ++i) {
        if (flight.owed[i]) ladder_.known().settled(ask.request.counters[i].digest, flight.told[i]);
      }
    }
    const std::span<store::Finding> findings = ask.findings();
    for (std::size_t i = 0; i < findings.size(); ++i) {
      findings[i] = answer.counters[i].finding;
      if (answer.counters[i].over_bound) over_bound_.fetch_add(1, std::memory_order_relaxed);
    }
    ask.decided({.verdict = answer.allowed ? Verdict::allowed : Verdict::limited,
                 .rung = Rung::store,
                 .reason = answer.allowed ? Reason::within_limit : Reason::over_limit,
                 .retry_after = {},
                 .numbers_known = true},
                answer.store_now);
  }

  void learn(std::span<const store::Counter> counters, const redis::Answer& answer) {
    const MonoTime now = clock_.mono();
    for (std::size_t i = 0; i < counters.size() && i < answer.counters.size(); ++i) {
      const redis::CounterReply& reply = answer.counters[i];
      store::Counter known = counters[i];
      known.numbers = &reply.numbers;
      const auto used =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(reply.log_used, reply.numbers.limit));
      ladder_.known().learn(known, state_after(counters[i], reply), reply.numbers.limit - used,
                            answer.store_now, now);
    }
  }

  static limit::State state_after(const store::Counter& counter, const redis::CounterReply& reply) {
    if (counter.op == store::Op::reset) return {};
    if (counter.op == store::Op::refund || reply.finding.charged) return reply.finding.step.next;
    return reply.before;
  }

  // ---- what the client says -------------------------------------------------------------------

  void on_vote(const redis::Vote& vote) override {
    const MonoTime now = clock_.mono();
    if (vote.failed) {
      changed(ladder_.breaker().on_failure(vote.generation, now), vote.error);
      return;
    }
    note_store_time(now);
    changed(ladder_.breaker().on_answer(vote.generation, vote.latency, now), nullptr);
  }

  void on_late(const redis::LateReply& late) override {
    if (late.answer.decided()) learn(late.counters, late.answer);
  }

  void on_unknown(std::uint64_t asks) override {
    unknown_.fetch_add(asks, std::memory_order_relaxed);
  }

  void on_report(const redis::StoreReport& report) override {
    note_store_time(clock_.mono());
    for (const redis::StoreFault& fault : report.faults) {
      tell({.kind = StoreEvent::Kind::fault, .why = fault.text});
    }
    std::lock_guard lock(ready_mutex_);
    version_ = report.version;
    if (report.fatal()) return;
    connected_ = true;
    trouble_.clear();
    ready_changed_.notify_all();
  }

  void on_disconnected(const redis::ErrorRow& why, std::string_view text) override {
    count_error(why);
    std::lock_guard lock(ready_mutex_);
    connected_ = false;
    trouble_ = std::string(why.meaning);
    if (!text.empty()) trouble_ += ": " + std::string(text);
    ready_changed_.notify_all();
  }

  void on_clock_set() override { tell({.kind = StoreEvent::Kind::clock_set}); }

  // ---- the breaker's turns --------------------------------------------------------------------

  void changed(ProbeBreaker::Change change, const redis::ErrorRow* why) {
    using Change = ProbeBreaker::Change;
    switch (change) {
      case Change::none:
      case Change::stepped:
        break;
      case Change::probing:
        probe();
        return;
      case Change::opened:
        ++openings_;
        tell({.kind = StoreEvent::Kind::away,
              .why = why != nullptr ? why->meaning : std::string_view("slow calls"),
              .next_probe = ladder_.breaker().until_probe(clock_.mono()).value_or(Nanos(0))});
        client_.release_waiting();
        break;
      case Change::recovering:
        tell({.kind = StoreEvent::Kind::answers_again});
        break;
      case Change::fell_back:
        break;
      case Change::closed:
        ++closings_;
        tell({.kind = StoreEvent::Kind::back, .owed_units = ladder_.known().owed_units()});
        break;
    }
    arm();
  }

  void arm() {
    const std::optional<MonoTime> next = ladder_.breaker().next_event();
    if (!next || stopping_) return;
    timer_.expires_at(std::chrono::time_point_cast<std::chrono::steady_clock::duration>(*next));
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error && !stopping_) changed_by_time();
    });
  }

  void changed_by_time() {
    const ProbeBreaker::Change change = ladder_.breaker().poll(clock_.mono());
    if (change == ProbeBreaker::Change::none) {
      arm();
    } else {
      changed(change, nullptr);
    }
  }

  void probe() {
    client_.probe(
        deadline_, [this](const redis::ErrorRow* error, const redis::StoreReport* report) {
          if (stopping_) return;
          const bool healthy = error == nullptr && report != nullptr && !report->fatal();
          const ProbeBreaker::Change change = ladder_.breaker().on_probe(healthy, clock_.mono());
          if (change == ProbeBreaker::Change::none) {
            arm();
          } else {
            changed(change, error);
          }
        });
  }

  void tell(const StoreEvent& event) {
    if (observer_ != nullptr) observer_->on_store_event(event);
  }

  void note_store_time(MonoTime now) {
    const redis::StoreClock& clock = client_.store_clock();
    if (!clock.known()) return;
    const Instant low = clock.earliest(now);
    const Instant middle = low + (clock.latest(now) - low) / 2;
    store_offset_ns_.store((middle.time_since_epoch() - now.time_since_epoch()).count(),
                           std::memory_order_relaxed);
  }

  void count_error(const redis::ErrorRow& row) {
    errors_[static_cast<std::size_t>(row.error_class) % kErrorClasses].fetch_add(
        1, std::memory_order_relaxed);
  }

  void write_metrics(render::Exposition& out) const {
    using Type = render::Exposition::Type;
    constexpr std::string_view kShard = "0";
    out.family("weir_breaker_state", Type::gauge,
               "Whether the store is asked: 0 closed, 1 recovering, 2 open.");
    const breaker::ProbeState state = ladder_.breaker().state();
    out.sample({{"shard", kShard}}, std::uint64_t{state == breaker::ProbeState::closed ? 0U
                                                  : state == breaker::ProbeState::open ? 2U
                                                                                       : 1U});
    out.family("weir_breaker_transitions_total", Type::counter,
               "Times that the store's breaker changed.");
    out.sample({{"shard", kShard}, {"to", "open"}}, openings_.load());
    out.sample({{"shard", kShard}, {"to", "closed"}}, closings_.load());
    out.family("weir_store_errors_total", Type::counter,
               "Asks and connections that failed, by class.");
    for (std::size_t i = 0; i < kErrorClasses; ++i) {
      out.sample(
          {{"shard", kShard}, {"class", redis::to_string(static_cast<redis::ErrorClass>(i))}},
          errors_[i].load(std::memory_order_relaxed));
    }
    out.family("weir_store_unknown_total", Type::counter,
               "Asks that were sent and never had a reply.");
    out.sample({{"shard", kShard}}, unknown_.load(std::memory_order_relaxed));
    out.family("weir_over_bound_total", Type::counter,
               "Counters found above the bound on the store's return.");
    out.sample({{"shard", kShard}}, over_bound_.load(std::memory_order_relaxed));
    out.family("weir_owed_units", Type::gauge,
               "Units admitted locally that the store has not been told of.");
    out.sample({{"shard", kShard}}, ladder_.known().owed_units());
    out.family("weir_workers", Type::gauge,
               "Workers that share the limits while the store is away.");
    out.sample({{"shard", kShard}}, std::uint64_t{ladder_.division()->workers()});
  }

  static constexpr std::size_t kErrorClasses = 5;

  const Nanos deadline_;
  const std::uint64_t worker_;
  Clock& clock_;
  render::Metrics& metrics_;
  Observer* observer_;
  mutable ladder::ShardLadder ladder_;
  std::uint64_t source_ = 0;

  std::mutex intake_mutex_;
  std::vector<SharedAsk*> intake_;
  bool woken_ = false;

  mutable std::mutex ready_mutex_;
  std::condition_variable ready_changed_;
  bool connected_ = false;
  std::string trouble_;
  std::string version_;

  std::atomic<std::int64_t> store_offset_ns_{kUnknownOffset};
  std::atomic<std::uint64_t> openings_{0};
  std::atomic<std::uint64_t> closings_{0};
  std::atomic<std::uint64_t> unknown_{0};
  std::atomic<std::uint64_t> over_bound_{0};
  std::array<std::atomic<std::uint64_t>, kErrorClasses> errors_{};

  // The store's thread alone.
  bool stopping_ = false;
  std::vector<SharedAsk*> taken_;
  std::vector<std::unique_ptr<Flight>> flights_;
  std::vector<std::uint64_t> free_flights_;
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  asio::steady_timer timer_;
  redis::AsioWire wire_;
  redis::RedisClient client_;
  std::thread thread_;
};

namespace {

Result<void> check_route(const policy::Route& route, const std::string& kind,
                         const policy::StoreSpec& spec) {
  if (route.when_store_fails == FailurePolicy::settle) {
    return not_here(kind + " '" + route.name +
                    "' settles while the store is away, and this release has no journal; "
                    "say `when_store_fails: bounded` or `closed` for it");
  }
  if (route.when_store_fails == FailurePolicy::bounded && !spec.workers.of) {
    return not_here(kind + " '" + route.name +
                    "' is bounded, and a worker must know how many share its limits: say "
                    "`workers: {of: N}` under `store`, with N the most workers that ever run");
  }
  return {};
}

}  // namespace

Result<void> SharedStore::check(const policy::Model& model) {
  const policy::StoreSpec& spec = model.store;
  const auto url = policy::parse_store_url(spec.url);
  if (!url) return url.error();
  if (url->tls)
    return not_here("TLS to the store is not in this release; allowed: redis://, redis+unix://");
  if (url->kind != policy::StoreKind::redis && url->kind != policy::StoreKind::unix_socket) {
    return not_here(
        "Sentinel and Cluster are not in this release; allowed: memory:, redis://, redis+unix://");
  }
  if (spec.fallback_url)
    return not_here("a fallback store is not in this release; take `fallback` out");
  if (spec.client_clock)
    return not_here("`clock: client` is not in this release; the store's own clock is used");
  if (spec.regions > 1)
    return not_here("several regions are not in this release; take `regions` out");
  for (const policy::Route& route : model.routes) {
    if (auto fits = check_route(route, "route", spec); !fits) return fits;
  }
  if (const auto undecided = policy::undecided_domains(model); !undecided.empty()) {
    return Error{ErrorCode::invalid_argument,
                 "domain '" + undecided.front() +
                     "' does not say what happens while the store cannot be asked; allowed: "
                     "`protects: security, side_effects, capacity or nothing` in its file, under "
                     "`rls`, or as --protects"};
  }
  for (const policy::Domain& domain : model.domains) {
    for (const policy::DomainScope& scope : domain.scopes) {
      if (auto fits = check_route(scope.route, "domain", spec); !fits) return fits;
    }
  }
  return {};
}

Result<std::unique_ptr<SharedStore>> SharedStore::open(const policy::Model& model, Clock& clock,
                                                       render::Metrics& metrics,
                                                       Observer* observer) {
  if (auto fits = check(model); !fits) return fits.error();
  const policy::StoreSpec& spec = model.store;
  const policy::StoreUrl url = policy::parse_store_url(spec.url).value();
  auto keys = redis::KeySpace::make(spec.prefix, spec.prefix);
  if (!keys) return keys.error();
  if (!spec.password_file.empty()) {
    if (auto read = read_password(spec.password_file); !read) return read.error();
  }
  auto impl = std::make_unique<Impl>(spec, url, std::move(*keys), clock, metrics, observer);
  impl->start();
  const std::optional<std::string> trouble = impl->wait_ready(spec.connect_timeout + spec.deadline);
  if (trouble) {
    if (spec.startup == policy::Startup::require) {
      return Error{ErrorCode::unavailable, "store: " + policy::redacted(spec.url) + ": " +
                                               *trouble + " (startup: require)"};
    }
    if (observer != nullptr)
      observer->on_store_event({.kind = StoreEvent::Kind::away_at_start, .why = *trouble});
  }
  return std::unique_ptr<SharedStore>(new SharedStore(std::move(impl)));
}

SharedStore::SharedStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SharedStore::~SharedStore() = default;
void SharedStore::decide(SharedAsk& ask) noexcept {
  impl_->decide(ask);
}
LadderVerdict SharedStore::decide_without(const ladder::LadderRequest& request,
                                          std::span<store::Finding> findings) noexcept {
  return impl_->without(request, findings);
}
Moment SharedStore::moment() const noexcept {
  return impl_->moment();
}
Nanos SharedStore::deadline() const noexcept {
  return impl_->deadline();
}
std::uint64_t SharedStore::known_keys() const {
  return impl_->known_keys();
}
bool SharedStore::answering() const noexcept {
  return impl_->answering();
}
std::string SharedStore::state_json() const {
  return impl_->state_json();
}

}  // namespace weir::guard
