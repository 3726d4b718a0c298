#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "guard/shard_counters.h"
#include "ladder/shard_ladder.h"
#include "limit/numbers.h"
#include "store/counter.h"
#include "store/redis/redis_client.h"
#include "weir/clock.h"

namespace weir::guard {

// Charges that came too late to be an answer, given back to the counters they were taken from.
//
// Guarantees:  each is asked for once, and the store carries none out after `patience`: what is
// lost
//              stays charged, and is counted. A counter is never left with more than if the charge
//              had not been.
// Threads:     the store's loop.
class GiveBacks final : private store::redis::AskHandler {
 public:
  // Tokens of this kind's asks, among all of a client's.
  static constexpr std::uint64_t kTokens = std::uint64_t{1} << 63;

  struct Charge {
    store::Counter counter;  // as it was charged
    std::uint64_t units = 0;
    Instant receipt{};
  };
  // What the store said of counters that were given back to.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void on_given_back(std::span<const store::Counter> counters,
                               const store::redis::Answer& answer) = 0;
  };

  GiveBacks(store::redis::RedisClient& client, Clock& clock, Nanos patience,
            ShardCounters& counters, Listener& listener)
      : client_(client),
        clock_(clock),
        patience_(patience),
        counters_(counters),
        listener_(listener) {}

  // How the charges were asked for.
  struct Under {
    Instant loaded_at{};         // see AskOptions
    std::optional<Instant> now;  // see AskOptions
    bool asking = false;         // ahead of their slot, which is on its way there
  };
  // Charges of one ask.
  void give_back(std::span<const Charge> charges, const Under& under);

  void on_late(const store::redis::LateReply& late);
  void on_lost(std::uint64_t token);

 private:
  struct Errand {
    std::vector<store::Counter> counters;
    std::vector<limit::Numbers> numbers;
    std::vector<std::string> keys;
  };

  void on_answer(std::uint64_t token, const store::redis::Answer& answer) override;
  void done(std::uint64_t token, bool given_back);

  store::redis::RedisClient& client_;
  Clock& clock_;
  const Nanos patience_;
  ShardCounters& counters_;
  Listener& listener_;
  std::vector<std::unique_ptr<Errand>> errands_;
  std::vector<std::uint64_t> free_;
};

}  // namespace weir::guard
