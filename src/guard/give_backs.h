#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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
// What becomes of one:
//
//   the store did it                         done
//   MOVED or ASK, to whom can be asked       that one is asked at once
//   it did nothing (redis::Carried::no)      it is asked again, until time is up; then it is lost
//   perhaps it did, or the connection ended  lost
//
// Guarantees:  none is carried out twice, nor after kPatience: what is lost stays charged, and is
//              counted. A counter is never left with more than if the charge had not been.
// Threads:     the store's loop.
class GiveBacks final : private store::redis::AskHandler {
 public:
  // Tokens of this kind's asks, among all of a client's.
  static constexpr std::uint64_t kTokens = std::uint64_t{1} << 63;
  // How long one is asked again: longer than a failover takes, with times such as servers ship
  // with.
  static constexpr Nanos kPatience = std::chrono::seconds(60);

  struct Charge {
    store::Counter counter;  // as it was charged
    std::uint64_t units = 0;
    Instant receipt{};
  };
  // How the charges were asked for.
  struct Under {
    Instant loaded_at{};         // see AskOptions
    std::optional<Instant> now;  // see AskOptions
    bool asking = false;         // ahead of their slot, which is on its way there
  };
  class Listener {
   public:
    virtual ~Listener() = default;
    // next_event() says something new.
    virtual void on_pause() {}
    // What the store said of counters that were given back to.
    virtual void on_given_back(std::span<const store::Counter> counters,
                               const store::redis::Answer& answer) = 0;
    // None is at the server any more.
    virtual void on_none_under_way() {}
    // Whether another server is about to take this one's place: that one is told, see go_on().
    virtual bool awaited() noexcept { return false; }
    // The server said that another one has the counters: whose it is to tell, and how. Absent:
    // nobody's.
    virtual GiveBacks* elsewhere(std::string_view error, Under& under) noexcept {
      (void)error, (void)under;
      return nullptr;
    }
  };

  GiveBacks(store::redis::RedisClient& client, Clock& clock, ShardCounters& counters,
            Listener& listener)
      : client_(client), clock_(clock), counters_(counters), listener_(listener) {}

  // Charges of one ask.
  void give_back(std::span<const Charge> charges, const Under& under);
  // Sends those that waited for a server, unless it is awaited still, and those that are due again.
  void go_on();
  // When go_on() is to be called, or soon after.
  std::optional<MonoTime> next_event() const;
  // Nothing is asked any more: what waits is lost.
  void stop();
  // How many are at the server.
  std::size_t under_way() const noexcept {
    return errands_.size() - free_.size() - waiting_.size();
  }

  void on_late(const store::redis::LateReply& late);
  void on_lost(std::uint64_t token);

 private:
  // The counters point to what stands beside them, and so are moved together.
  struct Errand {
    std::vector<store::Counter> counters;
    std::vector<limit::Numbers> numbers;
    std::vector<std::string> keys;
    Under under;
    MonoTime until{};
    MonoTime again{};  // not before
    Nanos pause = kFirstPause;
    std::uint8_t redirects = 0;
  };
  static constexpr std::uint8_t kMostRedirects = 4;
  // Between two tries: twice as long each time.
  static constexpr Nanos kFirstPause = std::chrono::milliseconds(25);
  static constexpr Nanos kMostPause = std::chrono::milliseconds(800);
  // As many as asks that wait for a server.
  static constexpr std::size_t kMostWaiting = 2'048;

  std::uint64_t take_place();
  void send(std::uint64_t place);
  void wait(std::uint64_t place);
  void ask(std::uint64_t place);
  bool follow(std::uint64_t place, const store::redis::Answer& answer);
  bool pause(std::uint64_t place, const store::redis::Answer& answer);
  void on_answer(std::uint64_t token, const store::redis::Answer& answer) override;
  void done(std::uint64_t token, bool given_back);
  void free_place(std::uint64_t place);

  store::redis::RedisClient& client_;
  Clock& clock_;
  ShardCounters& counters_;
  Listener& listener_;
  std::vector<std::unique_ptr<Errand>> errands_;
  std::vector<std::uint64_t> free_;
  std::vector<std::uint64_t> waiting_;  // for a server, or to be asked again
  // The earliest of all that wait: each that is refused asks for it, and they may be thousands.
  MonoTime first_again_ = MonoTime::max();
  MonoTime first_until_ = MonoTime::max();
  bool stopped_ = false;
};

}  // namespace weir::guard
