// A gcra decision of the memory store, beside what it is compared with, in one run: the bare
// compare-and-swap on a line of memory that any shared counter pays, and hash maps in 64 shards
// with a mutex each.
//
//   memory_store_bench [--json] [--quick]
//
// Every figure is the least of fifteen rounds in which all contestants take turns, in nanoseconds
// of processor time a decision and thread: what it costs where nothing else disturbs. `now` is
// passed in: the clock is not part of a decision.

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/counter_hasher.h"
#include "base/wide.h"
#include "limit/gcra.h"
#include "store/memory/memory_store.h"
#include "testing/allocations.h"

namespace {

using weir::testing::allocations;

using weir::CounterHasher;
using weir::Instant;
using weir::KeyDigest;
using weir::Nanos;
using weir::limit::Numbers;
using weir::store::Counter;
using weir::store::Finding;
using weir::store::LocalOutcome;
using weir::store::MemoryStore;

constexpr std::uint64_t kKeys = 1'000'000;
constexpr std::size_t kKeyBytes = 24;
constexpr Instant kStart{Nanos{1'700'000'000'000'000'000}};
constexpr Nanos kStep{50};          // between two decisions of a thread
constexpr Nanos kLongStep{20'000};  // where counters are to expire
constexpr int kRounds = 15;

Numbers gcra(std::uint64_t limit, Nanos period, std::uint64_t burst) {
  return Numbers::make({.algorithm = weir::Algorithm::gcra,
                        .limit = limit,
                        .period = {.length = period},
                        .burst = burst})
      .value();
}

// ---- The keys that are asked for, in order
// ----------------------------------------------------------

struct Stream {
  std::vector<std::uint32_t> ids;
  std::vector<std::array<char, kKeyBytes>> keys;
  std::vector<KeyDigest> digests;
};

std::array<char, kKeyBytes> key_of(std::uint32_t id) {
  std::array<char, kKeyBytes> key;
  char text[kKeyBytes + 1];
  std::snprintf(text, sizeof text, "user:%019u", id);
  std::memcpy(key.data(), text, kKeyBytes);
  return key;
}

// As a guard on the embedded store has it.
const CounterHasher& hasher() {
  static const CounterHasher instance = CounterHasher::of_process();
  return instance;
}

Stream make_stream(std::vector<std::uint32_t> ids) {
  Stream stream;
  stream.ids = std::move(ids);
  for (const std::uint32_t id : stream.ids) {
    stream.keys.push_back(key_of(id));
    stream.digests.push_back(hasher()({stream.keys.back().data(), kKeyBytes}));
  }
  return stream;
}

Stream hot_stream(std::size_t length) {
  return make_stream(std::vector<std::uint32_t>(length, 7));
}

Stream uniform_stream(std::size_t length, std::uint64_t keys, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint32_t> ids(length);
  for (auto& id : ids) id = static_cast<std::uint32_t>(random() % keys);
  return make_stream(std::move(ids));
}

// Zipf with exponent 1 over shuffled names.
Stream zipf_stream(std::size_t length, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<double> cumulative(kKeys);
  double sum = 0;
  for (std::uint64_t rank = 0; rank < kKeys; ++rank) {
    cumulative[rank] = sum += 1.0 / static_cast<double>(rank + 1);
  }
  std::vector<std::uint32_t> names(kKeys);
  for (std::uint64_t i = 0; i < kKeys; ++i) names[i] = static_cast<std::uint32_t>(i);
  std::shuffle(names.begin(), names.end(), std::mt19937_64(1));
  std::uniform_real_distribution<double> at(0, sum);
  std::vector<std::uint32_t> ids(length);
  for (auto& id : ids) {
    const auto rank = std::lower_bound(cumulative.begin(), cumulative.end(), at(random));
    id = names[static_cast<std::size_t>(rank - cumulative.begin())];
  }
  return make_stream(std::move(ids));
}

// ---- Contestants
// ------------------------------------------------------------------------------------

struct Contestant {
  virtual ~Contestant() = default;
  // Decides the whole stream, starting at `now`; returns how many were allowed.
  virtual std::uint64_t run(const Stream& stream, Instant now) = 0;
  Nanos step = kStep;
};

enum class Digests : std::uint8_t { given, made };

KeyDigest digest_at(const Stream& stream, std::size_t i, Digests digests) {
  return digests == Digests::given ? stream.digests[i]
                                   : hasher()({stream.keys[i].data(), kKeyBytes});
}

// What no shared counter can do without: one state, read from where its key says, computed and
// swapped in. No key is told from another: each has a cache line of as many as the store has.
struct BareCas final : Contestant {
  BareCas(const Numbers& n, Digests d) : numbers(n), digests(d), lines(kLines) {}
  std::uint64_t run(const Stream& stream, Instant now) override {
    std::uint64_t allowed = 0;
    for (std::size_t i = 0; i < stream.ids.size(); ++i, now += step) {
      const KeyDigest digest = digest_at(stream, i, digests);
      std::atomic<std::int64_t>& arrival =
          lines[static_cast<std::size_t>((static_cast<weir::Wide>(digest.hi) * kLines) >> 64)].word;
      std::int64_t seen = arrival.load(std::memory_order_relaxed);
      for (;;) {
        const auto taken = weir::limit::gcra_take(numbers, {.time_ns = seen}, now, 1);
        if (taken.outcome != weir::limit::Outcome::allowed) break;
        if (arrival.compare_exchange_weak(seen, taken.next.time_ns, std::memory_order_acq_rel)) {
          ++allowed;
          break;
        }
      }
    }
    return allowed;
  }
  static constexpr std::uint64_t kLines = kKeys * 5 / 9;
  struct alignas(64) Line {
    std::atomic<std::int64_t> word{0};
  };
  Numbers numbers;
  Digests digests;
  std::vector<Line> lines;
};

template <class Key>
struct Sharded final : Contestant {
  explicit Sharded(const Numbers& n) : numbers(n) {}
  std::uint64_t run(const Stream& stream, Instant now) override {
    std::uint64_t allowed = 0;
    for (std::size_t i = 0; i < stream.ids.size(); ++i, now += step) {
      const std::string_view text(stream.keys[i].data(), kKeyBytes);
      const std::size_t hash = std::hash<std::string_view>{}(text);
      Shard& shard = shards[hash >> 58];
      std::lock_guard lock(shard.mutex);
      std::int64_t& arrival = slot(shard, text, hash);
      const auto taken = weir::limit::gcra_take(numbers, {.time_ns = arrival}, now, 1);
      if (taken.outcome != weir::limit::Outcome::allowed) continue;
      arrival = taken.next.time_ns;
      ++allowed;
    }
    return allowed;
  }

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
    std::size_t operator()(std::uint64_t hash) const { return hash; }
  };
  struct alignas(64) Shard {
    std::mutex mutex;
    std::unordered_map<Key, std::int64_t, Hash, std::equal_to<>> map;
  };
  static std::int64_t& slot(Shard& shard, std::string_view text, std::size_t hash) {
    if constexpr (std::is_same_v<Key, std::string>) {
      const auto found = shard.map.find(text);
      if (found != shard.map.end()) return found->second;
      return shard.map.emplace(std::string(text), 0).first->second;
    } else {
      return shard.map[hash];
    }
  }
  Numbers numbers;
  std::array<Shard, 64> shards;
};

struct Weir : Contestant {
  Weir(const Numbers& n, std::uint64_t max_keys, Digests d)
      : numbers(n), digests(d), store(MemoryStore::open({.max_keys = max_keys}).value()) {}
  std::uint64_t run(const Stream& stream, Instant now) override {
    weir::store::LocalStore& local = *store;
    std::uint64_t allowed = 0;
    std::uint64_t without_room = 0;
    Counter counter{.numbers = &numbers};
    Finding finding;
    for (std::size_t i = 0; i < stream.ids.size(); ++i, now += step) {
      // Word by word: what is stored as two and read as one waits for the stores.
      const KeyDigest digest = digest_at(stream, i, digests);
      counter.digest.hi = digest.hi;
      counter.digest.lo = digest.lo;
      const auto answer = local.decide({&counter, 1}, now, {&finding, 1});
      allowed += answer.allowed ? 1 : 0;
      without_room += answer.outcome == LocalOutcome::exhausted ? 1 : 0;
    }
    exhausted += without_room;
    return allowed;
  }
  Numbers numbers;
  Digests digests;
  std::unique_ptr<MemoryStore> store;
  std::atomic<std::uint64_t> exhausted{0};
};

// The same by a caller that knows the next key while it decides one, as whoever reads several
// requests from a connection does: their memory is on its way meanwhile.
struct WeirAhead final : Weir {
  using Weir::Weir;
  std::uint64_t run(const Stream& stream, Instant now) override {
    std::array<Counter, 2> counters{Counter{.numbers = &numbers}, Counter{.numbers = &numbers}};
    const auto make = [&](std::size_t i) {
      const KeyDigest digest = digest_at(stream, i, digests);
      counters[i % 2].digest.hi = digest.hi;
      counters[i % 2].digest.lo = digest.lo;
      store->expect({&counters[i % 2], 1});
    };
    std::uint64_t allowed = 0;
    Finding finding;
    make(0);
    for (std::size_t i = 0; i < stream.ids.size(); ++i, now += step) {
      if (i + 1 < stream.ids.size()) make(i + 1);
      allowed += store->decide({&counters[i % 2], 1}, now, {&finding, 1}).allowed ? 1 : 0;
    }
    return allowed;
  }
};

// ---- Timing
// -----------------------------------------------------------------------------------------

void pin(unsigned cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu % std::max(1U, std::thread::hardware_concurrency()), &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

// Processor time, so that whatever else runs on the machine is not counted, but for its share of
// the caches.
double thread_cpu_ns() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

struct Timing {
  double ns = 0;  // a decision and thread
  std::uint64_t allocations = 0;
};

// Each thread decides its own stream, all at once.
Timing time_once(Contestant& contestant, const std::vector<const Stream*>& streams, Instant now) {
  std::vector<std::thread> threads;
  std::vector<double> ns(streams.size());
  std::barrier start(static_cast<std::ptrdiff_t>(streams.size()));
  std::atomic<std::uint64_t> counted{0};
  for (std::size_t t = 0; t < streams.size(); ++t) {
    threads.emplace_back([&, t] {
      pin(static_cast<unsigned>(t));
      start.arrive_and_wait();
      const std::uint64_t allocated = allocations();
      const double begin = thread_cpu_ns();
      contestant.run(*streams[t], now);
      const double end = thread_cpu_ns();
      counted += allocations() - allocated;
      ns[t] = (end - begin) / static_cast<double>(streams[t]->ids.size());
    });
  }
  for (auto& thread : threads) thread.join();
  double sum = 0;
  for (const double each : ns) sum += each;
  return {sum / static_cast<double>(ns.size()), counted.load()};
}

struct Row {
  std::string contestant;
  std::string pattern;
  std::size_t threads;
  double ns;
  double floor_ratio;
  std::uint64_t allocations;
};

struct Entry {
  std::string name;
  std::function<std::unique_ptr<Contestant>()> make;
};

// One pattern, all contestants in turns.
std::vector<Row> measure(const std::vector<Entry>& entries, const std::string& pattern,
                         const std::vector<const Stream*>& streams) {
  std::vector<std::unique_ptr<Contestant>> contestants;
  for (const Entry& entry : entries) {
    contestants.push_back(entry.make());
    time_once(*contestants.back(), streams, kStart);  // fills it
  }
  std::vector<std::vector<double>> ns(entries.size());
  std::vector<std::uint64_t> allocated(entries.size());
  Instant now = kStart;
  for (int round = 0; round < kRounds; ++round) {
    now += std::chrono::seconds(30);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const Timing timing = time_once(*contestants[i], streams, now);
      ns[i].push_back(timing.ns);
      allocated[i] += timing.allocations;
    }
  }
  std::vector<Row> rows;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    rows.push_back({entries[i].name, pattern, streams.size(),
                    *std::min_element(ns[i].begin(), ns[i].end()), 0, allocated[i]});
  }
  return rows;
}

struct Memory {
  double full = 0;    // bytes a key with the cap's keys
  double sparse = 0;  // with one in a hundred of them
};

double bytes_a_key(std::uint64_t keys, std::uint64_t max_keys) {
  auto store = MemoryStore::open({.max_keys = max_keys}).value();
  const Numbers numbers = gcra(1'000'000'000, std::chrono::seconds(1), 1'000'000'000);
  for (std::uint64_t id = 0; id < keys; ++id) {
    const auto key = key_of(static_cast<std::uint32_t>(id));
    Counter counter{.numbers = &numbers, .digest = hasher()({key.data(), kKeyBytes})};
    counter.cost = 900'000'000;
    Finding finding;
    (void)store->decide({&counter, 1}, kStart, {&finding, 1});
  }
  return static_cast<double>(store->resident_bytes()) / static_cast<double>(store->keys());
}

struct Goal {
  std::string name;
  double measured;
  double most;
  std::string unit;
  bool met() const { return measured <= most; }
};

const Row& row(const std::vector<Row>& rows, std::string_view contestant, std::string_view pattern,
               std::size_t threads) {
  return *std::find_if(rows.begin(), rows.end(), [&](const Row& r) {
    return r.contestant == contestant && r.pattern == pattern && r.threads == threads;
  });
}

void print_table(const std::vector<Row>& rows, const std::vector<Goal>& goals) {
  std::printf("%-34s %-16s %7s %10s %9s %12s\n", "contestant", "keys", "threads", "ns", "x floor",
              "allocations");
  for (const Row& r : rows) {
    std::printf("%-34s %-16s %7zu %10.1f %9.1f %12llu\n", r.contestant.c_str(), r.pattern.c_str(),
                r.threads, r.ns, r.floor_ratio, static_cast<unsigned long long>(r.allocations));
  }
  std::printf("\n%-58s %10s %10s\n", "goal", "measured", "at most");
  for (const Goal& goal : goals) {
    std::printf("%-58s %10.1f %10.1f %-8s %s\n", goal.name.c_str(), goal.measured, goal.most,
                goal.unit.c_str(), goal.met() ? "met" : "MISSED");
  }
}

void print_json(const std::vector<Row>& rows, const std::vector<Goal>& goals) {
  nlohmann::json out{{"bench", "memory_store"}, {"rows", nlohmann::json::array()}};
  for (const Row& r : rows) {
    out["rows"].push_back({{"contestant", r.contestant},
                           {"keys", r.pattern},
                           {"threads", r.threads},
                           {"ns", r.ns},
                           {"floor_ratio", r.floor_ratio},
                           {"allocations", r.allocations}});
  }
  for (const Goal& goal : goals) {
    out["goals"].push_back({{"goal", goal.name},
                            {"measured", goal.measured},
                            {"at_most", goal.most},
                            {"unit", goal.unit},
                            {"met", goal.met()}});
  }
  std::puts(out.dump().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  bool json = false;
  std::size_t length = 1'000'000;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--json") {
      json = true;
    } else if (argument == "--quick") {
      length = 200'000;
    } else {
      std::fprintf(stderr, "memory_store_bench: %s is neither --json nor --quick\n", argv[i]);
      return 2;
    }
  }

  // Always fits, and is remembered for most of a second: nothing expires during a round.
  const Numbers generous = gcra(1'000'000'000, std::chrono::seconds(1), 1'000'000'000);
  // Is emitted again in a millisecond and forgotten a second later, a twentieth of a round:
  // counters expire and come anew.
  const Numbers fleeting = gcra(1'000, std::chrono::seconds(1), 1'000);
  const auto weir = [](const Numbers& numbers, std::uint64_t max_keys, Digests digests,
                       Nanos step = kStep) {
    return [=] {
      auto made = std::make_unique<Weir>(numbers, max_keys, digests);
      made->step = step;
      return made;
    };
  };
  const std::vector<Entry> entries{
      {"bare CAS, digest given",
       [&] { return std::make_unique<BareCas>(generous, Digests::given); }},
      {"bare CAS, key digested",
       [&] { return std::make_unique<BareCas>(generous, Digests::made); }},
      {"weir, digest given", weir(generous, kKeys, Digests::given)},
      {"weir, key digested", weir(generous, kKeys, Digests::made)},
      {"weir, key digested, one ahead",
       [&] { return std::make_unique<WeirAhead>(generous, kKeys, Digests::made); }},
      {"64 mutex shards, 64-bit keys",
       [&] { return std::make_unique<Sharded<std::uint64_t>>(generous); }},
      {"64 mutex shards, string keys",
       [&] { return std::make_unique<Sharded<std::string>>(generous); }},
  };
  const std::vector<Entry> expiring{
      {"weir, key digested", weir(fleeting, kKeys, Digests::made, kLongStep)}};
  const std::vector<Entry> capped{{"weir, key digested", weir(generous, kKeys / 2, Digests::made)}};

  std::vector<Row> rows;
  const auto add = [&](const std::vector<Row>& more) {
    rows.insert(rows.end(), more.begin(), more.end());
  };
  const Stream hot = hot_stream(length);
  const Stream uniform[] = {uniform_stream(length, kKeys, 1), uniform_stream(length, kKeys, 2)};
  const Stream zipf[] = {zipf_stream(length, 1), zipf_stream(length, 2)};
  for (const std::size_t threads : {1U, 2U}) {
    const auto some = [threads](const Stream* first, const Stream* second) {
      return threads == 1 ? std::vector{first} : std::vector{first, second};
    };
    add(measure(entries, "hot", some(&hot, &hot)));
    add(measure(entries, "uniform", some(&uniform[0], &uniform[1])));
    add(measure(entries, "zipf", some(&zipf[0], &zipf[1])));
    add(measure(expiring, "uniform, expiry", some(&uniform[0], &uniform[1])));
    add(measure(capped, "uniform, at cap", some(&uniform[0], &uniform[1])));
  }
  // The floor of the same keys and threads, with the digest made where the contestant makes one.
  for (Row& r : rows) {
    const bool given = r.contestant.ends_with("digest given");
    const std::string_view pattern = r.pattern;
    r.floor_ratio = r.ns / row(rows, given ? "bare CAS, digest given" : "bare CAS, key digested",
                               pattern.substr(0, pattern.find(',')), r.threads)
                               .ns;
  }

  std::uint64_t allocated = 0;
  for (const Row& r : rows) allocated += r.contestant.starts_with("weir") ? r.allocations : 0;
  const std::vector<Goal> goals{
      {"hot key against the bare CAS, digest given",
       row(rows, "weir, digest given", "hot", 1).floor_ratio, 2, "x"},
      {"uniform over 10^6 keys against the bare CAS, key digested",
       row(rows, "weir, key digested", "uniform", 1).floor_ratio, 2, "x"},
      {"uniform over 10^6 keys of 24 bytes, key digested",
       row(rows, "weir, key digested", "uniform", 1).ns, 60, "ns"},
      {"the same by a caller that knows the next key",
       row(rows, "weir, key digested, one ahead", "uniform", 1).ns, 60, "ns"},
      {"the same while counters expire", row(rows, "weir, key digested", "uniform, expiry", 1).ns,
       60, "ns"},
      {"the same with the cap reached by half the keys",
       row(rows, "weir, key digested", "uniform, at cap", 1).ns, 60, "ns"},
      {"memory, 10^6 keys", bytes_a_key(kKeys, kKeys), 40, "bytes"},
      {"memory, 10^4 keys under a cap of 10^6", bytes_a_key(kKeys / 100, kKeys), 200, "bytes"},
      {"allocations in all decisions above", static_cast<double>(allocated), 0, ""},
  };
  json ? print_json(rows, goals) : print_table(rows, goals);
  return 0;
}
