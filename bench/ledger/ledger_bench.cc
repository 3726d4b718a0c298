// What a durable answer costs, beside the floor of the same disk in the same run; and how fast what
// is durable comes into the ledger.
//
//   ledger_bench [--folder DIR] [--seconds N] [--no-postgres] [--json]
//
// W callers in a closed loop: each hands in its next event when its last one is durable. The floor
// writes the same bytes into a file that is there already, with one fdatasync for all W.
// Contestants take turns; every figure is the median of five rounds. DIR must lie on the disk that
// is meant: a folder in memory syncs nothing.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ledger/journal.h"
#include "ledger/ledger.h"
#include "ledger/settler.h"
#include "testing/postgres_server.h"

namespace {

using namespace std::chrono_literals;
using weir::Clock;
using weir::Instant;
using weir::MonoTime;
using weir::Nanos;
using weir::Result;
using weir::ledger::Journal;
using weir::ledger::Settler;
using weir::ledger::UsageEvent;

constexpr int kRounds = 5;
constexpr double kGoal = 0.45;

MonoTime now() {
  return std::chrono::steady_clock::now();
}

UsageEvent event_of(std::uint64_t lo) {
  return {.id = {1, lo},
          .tenant = "customer-4711",
          .route = "export",
          .rule = "1000 per day by account",
          .units = 1,
          .outage = true,
          .at = Instant{std::chrono::seconds(1'700'000'000)},
          .window_start = Instant{std::chrono::seconds(1'699'920'000)},
          .window = std::chrono::hours(24)};
}

std::size_t event_bytes() {
  std::string bytes;
  (void)weir::ledger::encode(event_of(1'000'000), bytes);
  return bytes.size();
}

struct Figures {
  double rate = 0;  // events a second
  double p50_us = 0;
  double p99_us = 0;
};

Figures figures(std::vector<std::int64_t>& nanos, double seconds) {
  std::sort(nanos.begin(), nanos.end());
  const auto at = [&nanos](double part) {
    const auto i = static_cast<std::size_t>(part * static_cast<double>(nanos.size() - 1));
    return static_cast<double>(nanos[i]) / 1e3;
  };
  return {static_cast<double>(nanos.size()) / seconds, at(0.5), at(0.99)};
}

Figures median(std::vector<Figures> rounds) {
  const auto of = [&rounds](double Figures::*member) {
    std::sort(rounds.begin(), rounds.end(),
              [member](const Figures& a, const Figures& b) { return a.*member < b.*member; });
    return rounds[rounds.size() / 2].*member;
  };
  return {of(&Figures::rate), of(&Figures::p50_us), of(&Figures::p99_us)};
}

// The same bytes, nothing else: no file grows, and one sync serves all.
Figures floor_of(const std::string& folder, std::size_t callers, Nanos length) {
  constexpr std::size_t kFile = std::size_t{32} << 20;
  const std::string path = folder + "/floor";
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const std::string zeros(std::size_t{1} << 20, '\0');
  for (std::size_t at = 0; at < kFile; at += zeros.size())
    (void)!::pwrite(file, zeros.data(), zeros.size(), static_cast<off_t>(at));
  ::fsync(file);
  const std::string batch(event_bytes() * callers, 'e');
  std::vector<std::int64_t> nanos;
  const MonoTime begun = now();
  std::size_t at = 0;
  while (now() - begun < length) {
    const MonoTime one = now();
    if (at + batch.size() > kFile) at = 0;
    if (::pwrite(file, batch.data(), batch.size(), static_cast<off_t>(at)) < 0 ||
        ::fdatasync(file) != 0) {
      std::perror("the floor");
      std::exit(1);
    }
    at += batch.size();
    nanos.insert(nanos.end(), callers, (now() - one).count());
  }
  const double seconds = std::chrono::duration<double>(now() - begun).count();
  ::close(file);
  return figures(nanos, seconds);
}

// Callers that hand in their next event as soon as their last one is durable.
class Callers {
 public:
  Callers(Journal& journal, std::size_t count) : journal_(journal), begun_(count) {}

  Figures run(Nanos length) {
    const MonoTime begun = now();
    until_ = begun + length;
    running_ = begun_.size();
    for (std::size_t caller = 0; caller < begun_.size(); ++caller) hand_in(caller);
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return running_ == 0; });
    const double seconds = std::chrono::duration<double>(now() - begun).count();
    return figures(nanos_, seconds);
  }

 private:
  void hand_in(std::size_t caller) {
    begun_[caller] = now();
    const UsageEvent event = event_of(++events_);
    journal_.append({&event, 1}, [this, caller](const Result<void>& done) {
      if (!done) {
        std::fprintf(stderr, "ledger_bench: %s\n", done.error().message.c_str());
        std::exit(1);
      }
      const MonoTime ended = now();
      std::unique_lock lock(mutex_);
      nanos_.push_back((ended - begun_[caller]).count());
      if (ended < until_) {
        lock.unlock();
        hand_in(caller);
      } else if (--running_ == 0) {
        ended_.notify_one();
      }
    });
  }

  Journal& journal_;
  std::vector<MonoTime> begun_;
  std::vector<std::int64_t> nanos_;
  std::atomic<std::uint64_t> events_{0};
  MonoTime until_{};
  std::mutex mutex_;
  std::condition_variable ended_;
  std::size_t running_ = 0;
};

struct Folder {
  explicit Folder(const std::string& parent) : path(parent + "/ledger-bench-XXXXXX") {
    if (::mkdtemp(path.data()) == nullptr) {
      std::perror(path.c_str());
      std::exit(1);
    }
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

std::unique_ptr<Journal> open_journal(const std::string& folder) {
  auto journal = Journal::open({.folder = folder, .max_bytes = std::uint64_t{4} << 30});
  if (!journal || !(*journal)->writable()) {
    std::fprintf(stderr, "ledger_bench: the journal cannot be opened in %s\n", folder.c_str());
    std::exit(1);
  }
  return std::move(*journal);
}

// What a caller pays who does not wait: the healthy path's share.
double follow_nanos(const std::string& parent) {
  Folder folder(parent);
  const auto journal = open_journal(folder.path);
  std::vector<double> rounds;
  for (int round = 0; round < 9; ++round) {
    constexpr int kEvents = 4'000;
    const MonoTime begun = now();
    for (int i = 0; i < kEvents; ++i) {
      const UsageEvent event = event_of(static_cast<std::uint64_t>(i));
      if (!journal->follow({&event, 1})) std::exit(1);
    }
    rounds.push_back(static_cast<double>((now() - begun).count()) / kEvents);
    while (journal->status().waiting > 0) ::usleep(1'000);
  }
  std::sort(rounds.begin(), rounds.end());
  return rounds[rounds.size() / 2];
}

double settled_a_second(const std::string& parent, const std::string& url, std::uint64_t events) {
  Folder folder(parent);
  const auto journal = open_journal(folder.path);
  for (std::uint64_t i = 0; i < events; ++i) {
    UsageEvent event = event_of(i);
    const std::string tenant = "customer-" + std::to_string(i % 1'000);
    event.tenant = tenant;
    while (!journal->follow({&event, 1})) ::usleep(1'000);
  }
  while (journal->status().waiting > 0) ::usleep(1'000);
  const std::string where = url.empty() ? "sqlite:" + folder.path + "/ledger.db" : url;
  const MonoTime begun = now();
  Settler settler(
      *journal, [&where] { return weir::ledger::open_ledger(where); }, Clock::real());
  while (journal->status().counts.unsettled > 0) ::usleep(1'000);
  return static_cast<double>(events) / std::chrono::duration<double>(now() - begun).count();
}

struct Options {
  std::string folder = ".";
  double seconds = 1;
  bool postgres = true;  // where it is installed
  bool json = false;
};

Options read(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--folder" && i + 1 < count) {
      options.folder = words[++i];
    } else if (word == "--seconds" && i + 1 < count) {
      options.seconds = std::atof(words[++i]);
    } else if (word == "--no-postgres") {
      options.postgres = false;
    } else if (word == "--json") {
      options.json = true;
    } else {
      std::fprintf(stderr,
                   "usage: ledger_bench [--folder DIR] [--seconds N] [--no-postgres] [--json]\n");
      std::exit(2);
    }
  }
  return options;
}

}  // namespace

int main(int count, char** words) {
  const Options options = read(count, words);
  const Nanos length(static_cast<std::int64_t>(options.seconds * 1e9));
  nlohmann::json out;
  if (!options.json)
    std::printf(
        "events of %zu bytes, durable before the answer; medians of %d rounds of %.1f s\n\n"
        "%8s %28s %28s %8s\n%8s %12s %7s %7s %12s %7s %7s %8s\n",
        event_bytes(), kRounds, options.seconds, "", "floor", "journal", "", "callers", "events/s",
        "p50 us", "p99 us", "events/s", "p50 us", "p99 us", "ratio");
  for (const std::size_t callers : {1, 64, 512}) {
    Folder folder(options.folder);
    const auto journal = open_journal(folder.path);
    (void)Callers(*journal, callers).run(length / 2);  // its log has its size now
    std::vector<Figures> floors, journals;
    for (int round = 0; round < kRounds; ++round) {
      floors.push_back(floor_of(folder.path, callers, length));
      journals.push_back(Callers(*journal, callers).run(length));
      journal->settled({.journal = journal->readable()->journal,
                        .upto = journal->readable()->last,
                        .rejected = {},
                        .at = {}});
    }
    const Figures a = median(floors);
    const Figures b = median(journals);
    const double ratio = b.rate / a.rate;
    if (options.json) {
      out["durable"].push_back({{"callers", callers},
                                {"floor_events_per_second", a.rate},
                                {"floor_p50_us", a.p50_us},
                                {"floor_p99_us", a.p99_us},
                                {"events_per_second", b.rate},
                                {"p50_us", b.p50_us},
                                {"p99_us", b.p99_us},
                                {"ratio", ratio}});
    } else {
      std::printf("%8zu %12.0f %7.0f %7.0f %12.0f %7.0f %7.0f %8.2f%s\n", callers, a.rate, a.p50_us,
                  a.p99_us, b.rate, b.p50_us, b.p99_us, ratio,
                  callers != 64    ? ""
                  : ratio >= kGoal ? "  goal 0.45: met"
                                   : "  goal 0.45: missed");
    }
  }
  const double follow = follow_nanos(options.folder);
  const double sqlite = settled_a_second(options.folder, {}, 200'000);
  double postgres = 0;
  if (options.postgres && weir::testing::PostgresServer::installed()) {
    weir::testing::PostgresServer server;
    postgres = settled_a_second(options.folder, server.url(server.make_database()), 20'000);
  }
  if (options.json) {
    out["follow_ns"] = follow;
    out["settled_per_second"]["sqlite"] = sqlite;
    if (postgres > 0) out["settled_per_second"]["postgresql"] = postgres;
    std::printf("%s\n", out.dump().c_str());
  } else {
    std::printf("\nhanding in an event that nobody waits for: %.0f ns\n", follow);
    std::printf("settled into SQLite: %.0f events/s\n", sqlite);
    if (postgres > 0) std::printf("settled into PostgreSQL: %.0f events/s\n", postgres);
  }
  return 0;
}
