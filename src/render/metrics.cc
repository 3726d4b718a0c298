#include "render/metrics.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include "render/process_numbers.h"
#include "weir/version.h"

namespace weir::render {
namespace {

using namespace std::chrono_literals;
using Type = Exposition::Type;

constexpr std::array<Nanos, 23> kBoundNanos = {
    100ns, 250ns,  500ns, 1us,  2500ns, 5us,  10us,  25us,  50us,  100us, 250us, 500us,
    1ms,   2500us, 5ms,   10ms, 25ms,   50ms, 100ms, 250ms, 500ms, 1s,    2500ms};

// By the number of bits of a duration: the first bucket that a duration so long can lie in.
constexpr std::array<std::uint8_t, 65> first_buckets() {
  std::array<std::uint8_t, 65> first{};
  for (std::size_t bits = 0; bits < first.size(); ++bits) {
    const std::uint64_t least = bits == 0 ? 0 : std::uint64_t{1} << (bits - 1);
    std::size_t bucket = 0;
    while (bucket < kBoundNanos.size() &&
           least > static_cast<std::uint64_t>(kBoundNanos[bucket].count())) {
      ++bucket;
    }
    first[bits] = static_cast<std::uint8_t>(bucket);
  }
  return first;
}
constexpr std::array<std::uint8_t, 65> kFirstBuckets = first_buckets();

constexpr std::array<Verdict, 3> kVerdictValues = {Verdict::allowed, Verdict::limited,
                                                   Verdict::refused};
constexpr std::array<Rung, 6> kRungValues = {Rung::store,  Rung::known,   Rung::share,
                                             Rung::policy, Rung::journal, Rung::fallback};

constexpr std::array<std::string_view, kHttpBounds> kHttpBoundNames = {
    "connections", "header_bytes", "target_bytes", "body_bytes",
    "idle_time",   "receive_time", "send_time"};

// Pairs that a healthy process shows from its first scrape on, so that rates have a start.
bool always_shown(Verdict verdict, Rung rung) {
  return verdict == Verdict::refused ? rung == Rung::policy : rung == Rung::store;
}

}  // namespace

Metrics::Metrics() {
  static_assert(kBoundNanos.size() == kBounds);
  (void)route_slot("");
}

Metrics::~Metrics() {
  for (std::atomic<Chunk*>& chunk : chunks_) delete chunk.load();
}

Metrics::RouteSlot Metrics::route_slot(std::string_view name) {
  std::lock_guard lock(names_mutex_);
  if (const auto found = slots_.find(name); found != slots_.end()) return found->second;
  const std::size_t slot = names_.size();
  if (slot == kMaxRoutes) return kNoRoute;
  if (slot % kRoutesPerChunk == 0) {
    chunks_[slot / kRoutesPerChunk].store(new Chunk{}, std::memory_order_release);
  }
  const auto added = slots_.emplace(name, static_cast<RouteSlot>(slot)).first;
  names_.push_back(added->first);
  return added->second;
}

void Metrics::observe(Rung rung, Nanos took) noexcept {
  const auto nanos = static_cast<std::uint64_t>(std::max(took, Nanos::zero()).count());
  std::size_t bucket = kFirstBuckets[std::bit_width(nanos)];
  while (bucket < kBounds && nanos > static_cast<std::uint64_t>(kBoundNanos[bucket].count())) {
    ++bucket;
  }
  const std::size_t stripe = counter_stripe();
  Durations::OfRung& seen = durations_[stripe].rungs[static_cast<std::size_t>(rung)];
  add_to_stripe(seen.buckets[bucket], stripe, 1);
  add_to_stripe(seen.sum_ns, stripe, nanos);
}

void Metrics::count_degraded(RouteSlot route, Rung rung, MonoTime now) noexcept {
  Chunk* chunk = chunks_[route / kRoutesPerChunk].load(std::memory_order_acquire);
  Degraded& of = chunk->degraded[route % kRoutesPerChunk];
  const auto index = static_cast<std::size_t>(rung);
  // From 1 on, so that none has been counted yet.
  const std::int64_t second =
      std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count() + 1;
  std::int64_t latest = of.latest[index].load(std::memory_order_relaxed);
  if (latest >= second) return;
  if (of.latest[index].compare_exchange_strong(latest, second, std::memory_order_relaxed)) {
    of.seconds[index].fetch_add(1, std::memory_order_relaxed);
  }
}

std::uint64_t Metrics::add_source(Source source) {
  std::lock_guard lock(sources_mutex_);
  sources_.push_back({next_source_, std::move(source)});
  return next_source_++;
}

void Metrics::remove_source(std::uint64_t id) {
  std::lock_guard lock(sources_mutex_);
  std::erase_if(sources_, [id](const NamedSource& source) { return source.id == id; });
}

std::uint64_t Metrics::sum(RouteSlot route, std::size_t cell) const noexcept {
  const Chunk* chunk = chunks_[route / kRoutesPerChunk].load(std::memory_order_acquire);
  std::uint64_t total = 0;
  for (const auto& stripe : chunk->routes) {
    total += stripe[route % kRoutesPerChunk].cells[cell].load(std::memory_order_relaxed);
  }
  return total;
}

std::uint64_t Metrics::decisions(Verdict verdict) const noexcept {
  std::lock_guard lock(names_mutex_);
  std::uint64_t total = 0;
  for (RouteSlot slot = 0; slot < names_.size(); ++slot) {
    for (const Rung rung : kRungValues) total += sum(slot, decision_cell(verdict, rung));
  }
  return total;
}

std::uint64_t Metrics::decisions() const noexcept {
  std::uint64_t total = 0;
  for (const Verdict verdict : kVerdictValues) total += decisions(verdict);
  return total;
}

void Metrics::write_routes(Exposition& exposition) const {
  std::lock_guard lock(names_mutex_);
  exposition.family("weir_decisions_total", Type::counter,
                    "Decisions, by route, verdict and who decided.");
  for (RouteSlot slot = 0; slot < names_.size(); ++slot) {
    for (const Verdict verdict : kVerdictValues) {
      for (const Rung rung : kRungValues) {
        const std::uint64_t count = sum(slot, decision_cell(verdict, rung));
        if (count == 0 && (slot == kNoRoute || !always_shown(verdict, rung))) continue;
        exposition.sample(
            {{"route", names_[slot]}, {"verdict", to_string(verdict)}, {"rung", to_string(rung)}},
            count);
      }
    }
  }
  const auto by_route = [&](std::string_view name, std::string_view help, std::size_t cell) {
    exposition.family(name, Type::counter, help);
    for (RouteSlot slot = 1; slot < names_.size(); ++slot) {
      exposition.sample({{"route", names_[slot]}}, sum(slot, cell));
    }
  };
  by_route("weir_absent_values_total",
           "Rules that lacked a value of the request and counted it as absent.", kAbsentCell);
  by_route("weir_unenforced_total", "Requests admitted with a limit that nobody could check.",
           kUnenforcedCell);
  exposition.family("weir_degraded_seconds_total", Type::counter,
                    "Seconds in which a route was decided without its store, by who decided.");
  for (RouteSlot slot = 1; slot < names_.size(); ++slot) {
    const Chunk* chunk = chunks_[slot / kRoutesPerChunk].load(std::memory_order_acquire);
    for (const Rung rung : {Rung::share, Rung::policy, Rung::journal, Rung::fallback}) {
      const std::uint64_t seconds =
          chunk->degraded[slot % kRoutesPerChunk].seconds[static_cast<std::size_t>(rung)].load(
              std::memory_order_relaxed);
      if (seconds == 0) continue;
      exposition.sample({{"route", names_[slot]}, {"rung", to_string(rung)}}, seconds);
    }
  }
  exposition.family("weir_shadow_total", Type::counter,
                    "What shadow rules would have said, had they been allowed to.");
  for (RouteSlot slot = 1; slot < names_.size(); ++slot) {
    const std::uint64_t allowed = sum(slot, kShadowAllowedCell);
    const std::uint64_t limited = sum(slot, kShadowLimitedCell);
    if (allowed + limited == 0) continue;
    exposition.sample({{"route", names_[slot]}, {"verdict", "allowed"}}, allowed);
    exposition.sample({{"route", names_[slot]}, {"verdict", "limited"}}, limited);
  }
}

void Metrics::write_durations(Exposition& exposition) const {
  exposition.family("weir_decision_seconds", Type::histogram,
                    "Time that decisions took, by who decided; of those that were timed.");
  for (const Rung rung : kRungValues) {
    std::array<std::uint64_t, kBounds + 1> counts{};
    std::uint64_t seen = 0;
    std::uint64_t sum_ns = 0;
    for (const Durations& stripe : durations_) {
      const Durations::OfRung& of = stripe.rungs[static_cast<std::size_t>(rung)];
      for (std::size_t i = 0; i < counts.size(); ++i) {
        const std::uint64_t count = of.buckets[i].load(std::memory_order_relaxed);
        counts[i] += count;
        seen += count;
      }
      sum_ns += of.sum_ns.load(std::memory_order_relaxed);
    }
    if (seen == 0 && rung != Rung::store) continue;
    exposition.histogram({"rung", to_string(rung)}, kBoundNanos, counts,
                         Nanos(static_cast<std::int64_t>(sum_ns)));
  }
}

void Metrics::write_connections(Exposition& exposition) const {
  exposition.family("weir_http_rejected_total", Type::counter,
                    "Requests and connections ended because they passed a stated bound.");
  for (std::size_t i = 0; i < kHttpBounds; ++i) {
    exposition.sample({{"bound", kHttpBoundNames[i]}}, http_rejected_[i].sum());
  }
  if (!connections_) return;
  const ConnectionNumbers now = connections_();
  exposition.family("weir_connections", Type::gauge, "Connections open now.");
  exposition.sample(now.open);
  exposition.family("weir_connections_total", Type::counter, "Connections accepted.");
  exposition.sample(now.accepted);
  exposition.family("weir_connections_turned_away_total", Type::counter,
                    "Connections closed at once because as many as may be were open.");
  exposition.sample(now.turned_away);
  exposition.family(
      "weir_accept_faults_total", Type::counter,
      "Connections that could not be accepted, for lack of descriptors and the like.");
  exposition.sample(now.accept_faults);
}

void Metrics::write_process(Exposition& exposition) const {
  exposition.family("weir_build_info", Type::gauge, "Always 1; the label names the version.");
  exposition.sample({{"version", kVersion}}, 1);
  const ProcessNumbers process = read_process_numbers();
  const auto say = [&](std::string_view name, Type type, std::string_view help, auto value) {
    if (!value) return;
    exposition.family(name, type, help);
    exposition.sample(*value);
  };
  say("process_cpu_seconds_total", Type::counter, "User and system CPU time, in seconds.",
      process.cpu);
  say("process_start_time_seconds", Type::gauge, "Start of the process, in seconds since 1970.",
      process.started);
  say("process_resident_memory_bytes", Type::gauge, "Resident memory, in bytes.",
      process.resident_bytes);
  say("process_virtual_memory_bytes", Type::gauge, "Virtual memory, in bytes.",
      process.virtual_bytes);
  say("process_open_fds", Type::gauge, "Open file descriptors.", process.open_fds);
  say("process_max_fds", Type::gauge, "Most file descriptors that may be open.", process.max_fds);
}

void Metrics::write(std::string& out) const {
  Exposition exposition(out);
  write_routes(exposition);
  write_durations(exposition);
  exposition.family("weir_unmatched_total", Type::counter, "Requests that no route matched.");
  exposition.sample(unmatched_.sum());
  if (known_keys_) {
    exposition.family("weir_known_keys", Type::gauge, "Live counters in this process, about.");
    exposition.sample(known_keys_());
  }
  exposition.family("weir_policy_generation", Type::gauge,
                    "Policies loaded so far; rises by one at each successful reload.");
  exposition.sample(policy_generation_.load(std::memory_order_relaxed));
  exposition.family("weir_policy_load_errors_total", Type::counter,
                    "Policies that were refused; the one before stayed.");
  exposition.sample(policy_load_errors_.sum());
  write_connections(exposition);
  {
    std::lock_guard lock(sources_mutex_);
    for (const NamedSource& source : sources_) source.write(exposition);
  }
  write_process(exposition);
}

}  // namespace weir::render
