#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/striped_counter.h"
#include "render/exposition.h"
#include "weir/clock.h"
#include "weir/decision.h"

namespace weir::render {

// What a client ran into: labels of weir_http_rejected_total.
enum class HttpBound : std::uint8_t {
  connections,   // no more connections are taken
  header_bytes,  // request line and header too long
  target_bytes,  // the request target alone
  body_bytes,    // the body
  idle_time,     // nothing came on a kept connection
  receive_time,  // the request came too slowly
  send_time,     // the client did not take its answer
};
inline constexpr std::size_t kHttpBounds = 7;

// What the lanes have seen of connections, of every door but the admin's.
struct ConnectionNumbers {
  std::uint64_t open = 0;
  std::uint64_t accepted = 0;
  std::uint64_t turned_away = 0;    // over the bound on connections
  std::uint64_t accept_faults = 0;  // out of descriptors and the like
};

// Counts decisions and whatever else is worth a number, and says it all at a scrape. The names of
// Weir's metrics stand in metrics.cc and nowhere else; docs/reference/metrics.md explains them.
//
// Guarantees:  labels come from configuration and from our own enumerations only. Counters of a
//              route go on when a reload drops the route and brings it back. A series never goes
//              down. What is counted before write() begins is in it.
// Threads:     any.
// Cost:        record and count_*: one to three additions in memory that no other thread writes; no
//              lock, no allocation, no look-up by name.
class Metrics {
 public:
  // Where a route's counters stand; valid for the life of the Metrics. 0 stands for no route (the
  // caller named none that exists, or none matched) and shows as route="".
  using RouteSlot = std::uint32_t;
  static constexpr RouteSlot kNoRoute = 0;
  // Names beyond so many in one process's life are counted under kNoRoute.
  static constexpr std::size_t kMaxRoutes = 16384;

  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // The slot of a route; the same for the same name, however often policies are loaded. Call it at
  // load, not on the way of a request. Allocates.
  RouteSlot route_slot(std::string_view name);

  // One decision. Call it exactly once for each.
  void record(RouteSlot route, Verdict verdict, Rung rung) noexcept {
    add(route, decision_cell(verdict, rung));
  }
  // The same, with the time it took. Who does not time every decision calls the other for the rest:
  // the histogram then stands for a part of them.
  void record(RouteSlot route, Verdict verdict, Rung rung, Nanos took) noexcept {
    record(route, verdict, rung);
    observe(rung, took);
  }
  // A rule lacked a value and counted the request as "absent".
  void count_absent(RouteSlot route) noexcept { add(route, kAbsentCell); }
  // What a shadow rule would have said, had it been allowed to.
  void count_shadow(RouteSlot route, bool would_allow) noexcept {
    add(route, would_allow ? kShadowAllowedCell : kShadowLimitedCell);
  }
  // Admitted although a limit applied that nobody could check.
  void count_unenforced(RouteSlot route) noexcept { add(route, kUnenforcedCell); }
  // Decided without the store by `rung`. Counts the seconds in which that happened, each once.
  void count_degraded(RouteSlot route, Rung rung, MonoTime now) noexcept;
  void count_unmatched() noexcept { unmatched_.add(); }
  void count_policy_load_error() noexcept { policy_load_errors_.add(); }
  void count_http_rejection(HttpBound bound) noexcept {
    http_rejected_[static_cast<std::size_t>(bound)].add();
  }

  // What is read, not counted.
  void set_policy_generation(std::uint64_t generation) noexcept {
    policy_generation_.store(generation, std::memory_order_relaxed);
  }
  // Where weir_known_keys is read from at a scrape, in the scraping thread. Until it is set the
  // metric is not shown. Set it before the first scrape.
  void read_known_keys_from(std::function<std::uint64_t()> read) { known_keys_ = std::move(read); }
  // The same for weir_connections and what belongs to it.
  void read_connections_from(std::function<ConnectionNumbers()> read) {
    connections_ = std::move(read);
  }
  // Has `source` write families of its own at every scrape, in the scraping thread; for numbers
  // that somebody else keeps. Returns what remove_source() takes, which waits for a scrape that
  // is running.
  using Source = std::function<void(Exposition&)>;
  std::uint64_t add_source(Source source);
  void remove_source(std::uint64_t id);

  // Appends the whole exposition.
  void write(std::string& out) const;

  // Decisions so far, of all routes; the same sums as in the exposition.
  std::uint64_t decisions() const noexcept;
  std::uint64_t decisions(Verdict verdict) const noexcept;

 private:
  static constexpr std::size_t kVerdicts = 3;
  static constexpr std::size_t kRungs = 6;
  static constexpr std::size_t kAbsentCell = kVerdicts * kRungs;
  static constexpr std::size_t kShadowAllowedCell = kAbsentCell + 1;
  static constexpr std::size_t kShadowLimitedCell = kAbsentCell + 2;
  static constexpr std::size_t kUnenforcedCell = kAbsentCell + 3;
  static constexpr std::size_t kCells = 24;  // whole cache lines: no two stripes share one
  static constexpr std::size_t kRoutesPerChunk = 32;
  static constexpr std::size_t kChunks = kMaxRoutes / kRoutesPerChunk;
  static constexpr std::size_t kBounds = 23;

  struct alignas(64) RouteCells {
    std::array<std::atomic<std::uint64_t>, kCells> cells{};
  };
  // Seconds in which a route was decided without its store, by rung.
  struct Degraded {
    std::array<std::atomic<std::int64_t>, kRungs> latest{};
    std::array<std::atomic<std::uint64_t>, kRungs> seconds{};
  };
  // The counters of some routes, for every stripe. Never moves, never goes.
  struct Chunk {
    Degraded degraded[kRoutesPerChunk];
    RouteCells routes[kCounterStripes][kRoutesPerChunk];
  };
  // Durations seen by one stripe; the last bucket has no bound.
  struct alignas(64) Durations {
    struct OfRung {
      std::array<std::atomic<std::uint64_t>, kBounds + 1> buckets{};
      std::atomic<std::uint64_t> sum_ns{0};
    };
    std::array<OfRung, kRungs> rungs{};
  };
  struct NamedSource {
    std::uint64_t id;
    Source write;
  };

  static constexpr std::size_t decision_cell(Verdict verdict, Rung rung) noexcept {
    return static_cast<std::size_t>(verdict) * kRungs + static_cast<std::size_t>(rung);
  }
  void add(RouteSlot route, std::size_t cell) noexcept {
    const std::size_t stripe = counter_stripe();
    Chunk* chunk = chunks_[route / kRoutesPerChunk].load(std::memory_order_acquire);
    add_to_stripe(chunk->routes[stripe][route % kRoutesPerChunk].cells[cell], stripe, 1);
  }
  void observe(Rung rung, Nanos took) noexcept;
  std::uint64_t sum(RouteSlot route, std::size_t cell) const noexcept;
  void write_routes(Exposition& exposition) const;
  void write_durations(Exposition& exposition) const;
  void write_connections(Exposition& exposition) const;
  void write_process(Exposition& exposition) const;

  std::array<std::atomic<Chunk*>, kChunks> chunks_{};
  std::array<Durations, kCounterStripes> durations_{};
  StripedCounter unmatched_;
  StripedCounter policy_load_errors_;
  std::array<StripedCounter, kHttpBounds> http_rejected_;
  std::atomic<std::uint64_t> policy_generation_{0};

  std::function<std::uint64_t()> known_keys_;
  std::function<ConnectionNumbers()> connections_;

  mutable std::mutex names_mutex_;
  std::vector<std::string_view> names_;  // by slot; they live in slots_
  std::map<std::string, RouteSlot, std::less<>> slots_;
  mutable std::mutex sources_mutex_;
  std::vector<NamedSource> sources_;
  std::uint64_t next_source_ = 1;
};

}  // namespace weir::render
