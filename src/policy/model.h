#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "policy/envoy/domain.h"
#include "policy/route.h"
#include "policy/safeguard.h"
#include "policy/source.h"
#include "weir/clock.h"
#include "weir/limits.h"

namespace weir::policy {

enum class Unmatched : std::uint8_t { allow, refuse };

enum class Startup : std::uint8_t { degrade, require };

// The long form of `store:`. The short form is the URL alone.
struct StoreSpec {
  std::string url = "memory:";
  std::optional<std::string> fallback_url;
  // Given as a time, or as a part of a latency budget ("15% of 300ms"), which is worked out at
  // load.
  Nanos deadline{std::chrono::milliseconds(20)};
  std::string deadline_text = "20ms";
  Nanos connect_timeout{std::chrono::milliseconds(200)};
  std::string username;
  std::string password_file;
  std::string prefix = "weir";
  bool client_clock = false;
  Startup startup = Startup::degrade;
  struct Tls {
    std::string ca, cert, key, server_name;
  };
  std::optional<Tls> tls;
  struct Breaker {
    std::uint32_t failures = 5;
    Nanos slow_call{0};  // 0: no slow-call rule
    double slow_rate = 0.5;
    Nanos cooldown{std::chrono::milliseconds(500)};
    Nanos max_cooldown{std::chrono::seconds(5)};
    double jitter = 0.2;
  } breaker;
  struct Recovery {
    std::uint32_t steps = 4;
    Nanos step{std::chrono::milliseconds(250)};
  } recovery;
  struct Workers {
    std::optional<std::uint32_t> of;  // said outright; absent: learned from the store
    std::optional<std::uint32_t> index;
    std::string name;   // of this worker in the fleet; empty: made from its host and `state`
    std::string state;  // folder where it keeps what it knows of the fleet; empty: none
  } workers;
  std::uint32_t regions = 1;
  std::uint64_t known_keys = 100'000;     // most keys whose last known state a worker keeps
  std::uint64_t memory_keys = 1'000'000;  // memory store: most live keys (`max_keys`)
};

// Bytes of a worker's name.
inline constexpr std::size_t kMaxWorkerName = 128;

// `rls:`: what holds for the domains that its files describe.
struct RlsSpec {
  std::string config;                // a file or directory of domains; empty: none
  std::optional<Protects> protects;  // of domains that do not say themselves
  bool refusal_is_error = false;     // a refusal is gRPC's UNAVAILABLE, not OVER_LIMIT
  bool merge_domains = false;        // one domain may stand in several files
  bool count_denied = false;         // a denied request is charged to its descriptors all the same
  // `keys: envoyproxy`: counters stand under the names that envoyproxy/ratelimit gives them, behind
  // this prefix, and count as it does. Absent: under Weir's own.
  std::optional<std::string> envoyproxy_prefix;
};

// `journal:`: where the usage of metered rules is recorded, on its way to the ledger.
// Events of good times that wait in memory while the disk takes none: at most so many.
inline constexpr std::size_t kMostWaiting = 65'536;

struct JournalSpec {
  std::string folder;
  std::uint64_t max_bytes = std::uint64_t{256} << 20;  // of events that the ledger has not taken
  // In good times an event follows its answer onto the disk within so long.
  Nanos within{std::chrono::milliseconds(100)};
  std::string ledger;  // its URL; empty: ledger.db in the folder
};

class Matcher;

// A whole policy, as loaded from files or built in code; checked, immutable, shared.
struct Model {
  StoreSpec store;
  std::vector<std::string> inputs;
  std::vector<CidrBlock> trusted_proxies;
  std::uint8_t ipv6_prefix = 64;
  Unmatched unmatched = Unmatched::allow;
  bool unmatched_given = false;
  std::string default_route;  // empty: an unknown route is an error
  std::uint8_t header_profiles = 0;
  bool header_profiles_given = false;  // by `headers:`; domains of Envoy-style files want it said
  std::vector<Route> routes;
  std::vector<Domain> domains;  // of Envoy-style files
  std::vector<BreakerSpec> breakers;
  std::vector<ConcurrencySpec> concurrency;
  RlsSpec rls;
  std::optional<JournalSpec> journal;
  std::shared_ptr<const Matcher> matcher;  // finds routes by name and by request; see match.h
  std::string text_sha256;  // of the bytes it was loaded from, for /policy and generations
  std::vector<std::string> files;
};

}  // namespace weir::policy
