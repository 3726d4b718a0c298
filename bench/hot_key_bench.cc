// One hot key with many callers, each of which asks again as soon as it is answered: every ask by
// itself beside asks alike going as one, in one run.
//
//   hot_key_bench [--json] [--quick]
//
// Decisions a second, the server's and our processor time a decision, and how many went with
// another's. Rounds take turns, the median counts; server and client have a core each where there
// are two.

#include <sys/resource.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "guard/hosted_shard.h"
#include "measure.h"
#include "store/redis/asio_wire.h"
#include "testing/redis_rig.h"
#include "testing/redis_server.h"

namespace {

using namespace std::chrono_literals;
using namespace weir;
using weir::bench::cpu_ns;
using weir::bench::median;
using weir::testing::RedisServer;
using weir::testing::RigRule;

// Callers in a closed loop on one key, before a driver on an event loop.
class Callers {
 public:
  Callers(RedisServer& server, const RigRule& rule, std::size_t count, bool together)
      : together_(together),
        counter_(rule.counter()),
        shard_(io_,
               std::make_unique<store::redis::AsioWire>(
                   io_,
                   store::redis::Endpoint{
                       .host = "127.0.0.1", .port = server.port(), .unix_path = {}, .tls = {}}),
               guard::ShardDriver::Options::of(spec(), 1),
               store::redis::KeySpace::make("weir", "").value(), clock_, nullptr, {}),
        asks_(count) {
    const Instant loaded_at = clock_.now();
    for (Ask& ask : asks_) {
      ask.of = this;
      ask.request = {.counters = {&counter_, 1}, .cost = 1};
      ask.loaded_at = loaded_at;
    }
    shard_.driver().start();
    const MonoTime give_up = clock_.mono() + 5s;
    while (!shard_.driver().connection().up && clock_.mono() < give_up) io_.run_for(1ms);
  }
  ~Callers() { shard_.stop(); }

  struct Seen {
    std::uint64_t decided = 0;
    std::uint64_t refused = 0;
    double seconds = 0;
  };
  Seen run_for(Nanos time) {
    seen_ = {};
    ending_ = false;
    for (Ask& ask : asks_) waiting_.push_back(&ask);
    turn();
    const MonoTime begun = clock_.mono();
    while (clock_.mono() - begun < time) io_.run_for(1ms);
    seen_.seconds = std::chrono::duration<double>(clock_.mono() - begun).count();
    const Seen seen = seen_;
    ending_ = true;
    while (out_ > 0) io_.run_for(1ms);
    waiting_.clear();
    return seen;
  }
  std::uint64_t coalesced() const { return shard_.driver().counters().coalesced(); }

 private:
  struct Ask final : guard::SharedAsk {
    void decided(const ladder::LadderVerdict& verdict, Instant) noexcept override {
      of->again(*this, verdict);
    }
    Callers* of = nullptr;
  };

  static policy::StoreSpec spec() {
    policy::StoreSpec spec;
    spec.deadline = 1s;
    return spec;
  }

  // All that were answered in one turn ask again in the next, as callers of one process do.
  void turn() {
    turn_due_ = false;
    const MonoTime by = clock_.mono() + 1s;
    sent_.clear();
    std::swap(waiting_, asking_);
    for (Ask* ask : asking_) {
      ask->answer_by = by;
      ++out_;
      if (shard_.driver().begin(*ask)) sent_.push_back(ask);
    }
    asking_.clear();
    if (together_) {
      shard_.driver().send_together(sent_);
    } else {
      for (guard::SharedAsk* ask : sent_) shard_.driver().send(*ask);
    }
  }

  void again(Ask& ask, const ladder::LadderVerdict& verdict) {
    --out_;
    ++seen_.decided;
    seen_.refused += verdict.verdict == Verdict::refused;
    waiting_.push_back(&ask);
    if (ending_ || turn_due_) return;
    turn_due_ = true;
    boost::asio::post(io_, [this] {
      if (!ending_) turn();
    });
  }

  const bool together_;
  Clock& clock_ = Clock::real();
  const store::Counter counter_;
  boost::asio::io_context io_{1};
  guard::HostedShard shard_;
  std::vector<Ask> asks_;
  std::vector<Ask*> waiting_;
  std::vector<Ask*> asking_;
  std::vector<guard::SharedAsk*> sent_;
  std::size_t out_ = 0;
  bool ending_ = false;
  bool turn_due_ = false;
  Seen seen_;
};

double own_cpu_ns() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  const auto ns = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_usec) * 1e3;
  };
  return ns(usage.ru_utime) + ns(usage.ru_stime);
}

struct Row {
  std::vector<double> per_second, server_us, client_us;
  double together = 0;  // part of the callers that went with another
};

void measure(RedisServer& server, const RigRule& rule, std::size_t count, bool together, Nanos time,
             Row& row) {
  Callers callers(server, rule, count, together);
  (void)callers.run_for(time / 4);
  const std::uint64_t with_another = callers.coalesced();
  const double server_before = cpu_ns(server.pid());
  const double own_before = own_cpu_ns();
  const Callers::Seen seen = callers.run_for(time);
  if (seen.decided == 0 || seen.refused > 0) {
    std::fprintf(stderr,
                 "hot_key_bench: %llu of %llu asks were refused: the store did not answer\n",
                 static_cast<unsigned long long>(seen.refused),
                 static_cast<unsigned long long>(seen.decided));
    std::exit(1);
  }
  const auto decided = static_cast<double>(seen.decided);
  row.per_second.push_back(decided / seen.seconds);
  row.server_us.push_back((cpu_ns(server.pid()) - server_before) / decided / 1e3);
  row.client_us.push_back((own_cpu_ns() - own_before) / decided / 1e3);
  row.together = static_cast<double>(callers.coalesced() - with_another) / decided;
}

}  // namespace

int main(int argc, char** argv) {
  bool json = false;
  bool quick = false;
  for (int i = 1; i < argc; ++i) {
    json = json || std::strcmp(argv[i], "--json") == 0;
    quick = quick || std::strcmp(argv[i], "--quick") == 0;
  }
  RedisServer server;
  weir::bench::pin(server.pid(), 0);
  weir::bench::pin(0, 1);
  nlohmann::json report;
  if (!json) {
    std::printf("%-8s %-14s %12s %11s %11s %9s\n", "callers", "asks", "decisions/s", "server us",
                "client us", "together");
  }
  for (const auto& [what, limit] :
       {std::pair<const char*, std::uint64_t>{"all fit", 1'000'000'000}, {"half fit", 20'000}}) {
    const RigRule rule(limit, limit, 1s, Algorithm::fixed_window, "hot");
    for (const std::size_t count : {std::size_t{1}, std::size_t{64}}) {
      Row apart, as_one;
      for (int round = 0; round < (quick ? 1 : 5); ++round) {
        measure(server, rule, count, false, quick ? 200ms : 1s, apart);
        measure(server, rule, count, true, quick ? 200ms : 1s, as_one);
      }
      for (const auto& [name, row] : {std::pair<const char*, const Row*>{"each by itself", &apart},
                                      {"alike as one", &as_one}}) {
        report[what][std::to_string(count)][name] = {{"per_second", median(row->per_second)},
                                                     {"server_us", median(row->server_us)},
                                                     {"client_us", median(row->client_us)},
                                                     {"together", row->together}};
        if (!json) {
          std::printf("%-8zu %-14s %12.0f %11.2f %11.2f %8.0f%%   %s\n", count, name,
                      median(row->per_second), median(row->server_us), median(row->client_us),
                      row->together * 100, what);
        }
      }
    }
  }
  if (json) std::printf("%s\n", report.dump(2).c_str());
  return 0;
}
