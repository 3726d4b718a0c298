#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "guard/coalesce.h"
#include "guard/fleet_seat.h"
#include "guard/give_backs.h"
#include "guard/shard_counters.h"
#include "guard/shared_ask.h"
#include "ladder/shard_ladder.h"
#include "policy/model.h"
#include "store/redis/redis_client.h"
#include "store/redis/wire.h"
#include "weir/clock.h"
#include "weir/observer.h"

namespace weir::guard {

// Decides by one shard: keeps the connection to it asked, its breaker turning, what is known of its
// counters learnt, and what is owed to it told. Has no thread, no socket and no timer: the wire and
// the host bring events, and a simulation brings them as well as an event loop.
//
// Threads:     the loop's alone, where nothing else is said.
class ShardDriver final : private store::redis::ClientEvents,
                          private store::redis::AskHandler,
                          private GiveBacks::Listener {
 public:
  // What runs a driver.
  class Host {
   public:
    virtual ~Host() = default;
    // on_wake() is to be called then. One wake-up: a later call replaces an earlier one.
    virtual void wake_at(MonoTime when) = 0;
    // connection() or seated() says something new.
    virtual void connection_changed() {}
    // The text belongs in the state folder, where there is one; view_written() tells of it.
    virtual void write_view(std::string text, std::uint64_t epoch) {
      (void)text;
      (void)epoch;
    }
    // Whether another store is asked in place of this one, and decides the ask. From any thread.
    virtual bool ask_another(SharedAsk& ask) noexcept {
      (void)ask;
      return false;
    }
    // The server is being replaced by one that will be there in a moment, or just was. Whether the
    // ask waits for that: it is sent again then.
    virtual bool wait_for_server(SharedAsk& ask, bool asking) noexcept {
      (void)ask, (void)asking;
      return false;
    }
    // No ask is at the server any more, and nothing is being given back.
    virtual void idle() noexcept {}
    // Whether a server takes this one's place in a moment, or was just aimed at.
    virtual bool awaited() noexcept { return false; }
    // The server said that another one is to be told of what is given back: whose it is, and
    // whether ahead of its slot. Absent: nobody's.
    virtual ShardDriver* give_back_to(std::string_view error, bool& asking) noexcept {
      (void)error;
      (void)asking;
      return nullptr;
    }
    // The server said that another one is to be asked, or that it knows of none. Whether the ask is
    // that one's to decide now, or is sent again in a moment; else it is decided without the store.
    virtual bool follow(SharedAsk& ask, std::string_view error) noexcept {
      (void)ask;
      (void)error;
      return false;
    }
  };

  struct Options {
    Nanos deadline{std::chrono::milliseconds(20)};  // of an ask, and of a probe
    std::uint64_t worker = 0;                       // random: whose owed units these are
    // This machine's clock decides what is counted when, as far as it goes with the store's.
    bool client_clock = false;
    ladder::ShardLadder::Options ladder;
    store::redis::ClientOptions client;
    FleetSeat::Options seat;
    // As the policy's `store` says; `random` seeds whatever is drawn.
    static Options of(const policy::StoreSpec& spec, std::uint64_t random);
  };

  struct Connection {
    bool up = false;
    MonoTime since{};        // when it came to be so; a failed attempt to connect changes nothing
    std::string trouble;     // why it is not
    std::string last_error;  // why the last one ended, or an ask failed, whichever came later
    MonoTime last_error_at{};
    std::string version;  // of the server
  };

  ShardDriver(Options options, store::redis::KeySpace keys, store::redis::Wire& wire, Clock& clock,
              Observer* observer, Host& host);
  ~ShardDriver() override;
  ShardDriver(const ShardDriver&) = delete;
  ShardDriver& operator=(const ShardDriver&) = delete;

  void start();
  // Answers everything that waits, and closes the connection.
  void stop();
  // Asks the store; the ask is decided by its time. `asking`: a slot that is on its way here.
  void send(SharedAsk& ask, bool asking = false);
  // The same for asks that came together. Callers that ask alike go to the store as one (see
  // coalesce.h): as many as fit are admitted, the first of them first.
  void send_together(std::span<SharedAsk* const> asks);
  void on_wake();

  // A command beside the asks; see CallHandler.
  void call(store::redis::StoreCall call, Nanos within, store::redis::CallHandler handler) {
    client_.call(std::move(call), within, std::move(handler));
  }
  bool ready() const noexcept { return client_.ready(); }
  // Whether asks, or what is given back, are at the server.
  bool busy() const noexcept {
    return in_flight_.load(std::memory_order_relaxed) > 0 || give_backs_.under_way() > 0;
  }
  // An ask that was to be sent again never was served: it is decided without the store, and is one
  // failure more.
  void never_served(SharedAsk& ask) noexcept;
  // The server that was awaited is there, or is awaited no longer: it is told what waited for it.
  void go_on_giving_back() { give_backs_.go_on(); }

  // The wire was turned to another server, which took this one's place.
  void elsewhere() { client_.elsewhere(); }
  // Its own keys are those of that shard from now on; without a name it has none.
  void name_shard(std::string shard);
  // The policy names counters otherwise from now on: see RedisSession::try_names().
  void try_names(std::vector<policy::NameTrial> names);

  // The store charged these counters of an ask for a request that was denied elsewhere: they are
  // given back. Requires: ask.asked_of is this one.
  void give_back(const SharedAsk& ask, std::span<const store::Counter> counters,
                 std::span<const store::Finding> charged);
  // The same, for a request that was decided without the store meanwhile.
  void take_back(const SharedAsk& ask, std::span<const store::Counter> counters,
                 std::span<const store::Finding> charged, const SharedAsk::OwnDecision& own);

  // See FleetSeat. The first two before start().
  void start_from(const ladder::MembershipView& view) { seat_.start_from(view); }
  void view_written(std::uint64_t epoch, const std::string& fault) { seat_.written(epoch, fault); }
  // The caller has told that the store was away at the start.
  void started_without();
  bool leave(std::function<void()> done) {
    return seat_.leave(ladder_.known().owed_units(moment().store) > 0, std::move(done));
  }

  // ---- From any thread.

  // Whether the store is to be asked: send() comes next. False: the ask is decided.
  bool begin(SharedAsk& ask) noexcept;
  // The ask is decided without the store.
  void decide_without(SharedAsk& ask) noexcept;
  // Another store decided an ask in place of this one.
  void decided_by_fallback() noexcept { counters_.count_by_fallback(); }
  // The same as decide_without(), because as many wait for the store's thread as may. It says
  // nothing about the store, and so its breaker hears nothing of it.
  void no_room(SharedAsk& ask) noexcept;
  ladder::LadderVerdict without(const ladder::LadderRequest& request,
                                std::span<store::Finding> findings) noexcept;
  // Takes back what without() has just admitted from this worker's part.
  void unspend(const ladder::LadderRequest& request, std::span<const store::Finding> findings,
               std::uint64_t charged_late = 0) noexcept {
    ladder_.unspend(request, moment(), findings, charged_late);
  }
  ladder::LadderVerdict not_recorded(const ladder::LadderRequest& request,
                                     std::span<store::Finding> findings,
                                     const ladder::LadderVerdict& served) noexcept;
  // Who shares the limits from now on.
  void divide(ladder::Division division) { ladder_.divide(std::move(division)); }

  // By the clock that decides.
  ladder::Moment moment() const noexcept;
  // By the store's, whichever decides: what stands there beside the counters goes by it.
  Instant store_time() const noexcept { return store_time_at(clock_.mono()); }
  Nanos deadline() const noexcept { return options_.deadline; }
  const ladder::ShardLadder& ladder() const noexcept { return ladder_; }
  // See ShardLadder::restore_overspend().
  void restore_overspend(const KeyDigest& counter, Instant window, std::uint64_t units) {
    ladder_.restore_overspend(counter, window, units);
  }
  const ShardCounters& counters() const noexcept { return counters_; }
  Connection connection() const;
  WorkerPart part() const { return seat_.part(); }
  std::optional<ladder::MembershipView> fleet_view() const { return seat_.view(); }
  // Since the store can be relied on no more: its breaker opened, or there was no connection for
  // some time though nobody asked. Until every key asks it again.
  std::optional<Nanos> away_for() const noexcept;
  bool seated() const noexcept { return seat_.settled(); }
  std::string state_json() const;
  // Under that label; it lives as long as the name.
  ShardView view(std::string_view name) const {
    return {name, counters_, ladder_, moment().store, clock_skew(), away_for()};
  }

 private:
  // What to do with a charge of an ask that was decided without the store.
  struct Superfluous {
    std::uint64_t units = 0;       // for which nobody was admitted: given back
    std::uint64_t owed_units = 0;  // admitted from a part, and owed under `outage` as well
    std::uint64_t outage = 0;
  };
  // An ask that is at the server, for one caller or several alike, and what it told of what is
  // owed.
  struct Flight {
    std::vector<SharedAsk*> asks;          // until they are decided
    std::vector<store::Counter> counters;  // of all callers together; several only
    std::vector<std::uint64_t> costs;      // of one caller, by counter
    Instant loaded_at{};
    bool asking = false;
    bool divided = false;  // a part of callers that did not all fit
    std::vector<std::optional<store::redis::Owed>> owed;
    std::vector<ladder::OwedUnits> told;
    bool tells = false;
    std::vector<std::optional<store::redis::Known>> known;
    bool brings = false;                   // last known states, to a store that may have lost them
    std::vector<Superfluous> superfluous;  // by counter
    // Of its asks, those whose usage is being recorded: they may turn out not to be served. Bit i
    // of `owed` says that the cost of counter i is among what superfluous[i] says is owed.
    struct Recording {
      std::shared_ptr<LateCharges> late;
      std::uint64_t owed = 0;
    };
    std::vector<Recording> recordings;
  };

  // Whether the ask is one that gives back: it is decided then.
  bool begin_giving_back(SharedAsk& ask);
  void send_as_one(std::span<SharedAsk* const> asks, bool asking = false, bool divided = false);
  std::uint64_t take_flight(std::span<SharedAsk* const> asks);
  void free_flight(std::uint64_t token);
  void tell_owed(Flight& flight, std::span<const store::Counter> counters,
                 const ladder::Moment& now);
  void bring_known(Flight& flight, std::span<const store::Counter> counters,
                   const ladder::Moment& now);
  std::optional<Nanos> clock_skew() const noexcept;
  Instant store_time_at(MonoTime mono) const noexcept;
  Instant deciding_time(Instant store) const noexcept;
  // What an ask says of time, by the clock that decides.
  GiveBacks::Under under(Instant now, Instant loaded_at, bool asking) noexcept;
  void look_at_skew();
  void settle_told(const Flight& flight, std::span<const store::Counter> counters);
  void note_decided(Flight& flight, const SharedAsk& ask, const SharedAsk::OwnDecision& own);
  static void note_unwanted(Flight& flight);
  void take_back(const Flight& flight, std::span<const store::Counter> counters,
                 const store::redis::Answer& answer);
  void learn(std::span<const store::Counter> counters, const store::redis::Answer& answer);

  void on_answer(std::uint64_t token, const store::redis::Answer& answer) override;
  void answered(Flight& flight, std::span<SharedAsk* const> asks,
                const store::redis::Answer& answer);
  void answered_together(Flight& flight, std::span<SharedAsk* const> asks,
                         const store::redis::Answer& answer);
  void unanswered(Flight& flight, SharedAsk& ask, const store::redis::Answer& answer);
  void vote_unserved() noexcept;
  void count_found(const store::redis::Answer& answer) noexcept;
  void on_vote(const store::redis::Vote& vote) override;
  void on_late(const store::redis::LateReply& late) override;
  void on_lost(std::uint64_t token) override;
  void on_given_back(std::span<const store::Counter> counters,
                     const store::redis::Answer& answer) override {
    learn(counters, answer);
  }
  void on_none_under_way() override { tell_idle(); }
  void on_pause() override { arm(); }
  bool awaited() noexcept override { return host_.awaited(); }
  GiveBacks* elsewhere(std::string_view error, GiveBacks::Under& under) noexcept override;
  void tell_idle() noexcept {
    if (!busy()) host_.idle();
  }
  void on_unknown(std::uint64_t asks) override { counters_.count_unknown(asks); }
  void on_report(const store::redis::StoreReport& report) override;
  void on_connected() override { seat_.store_there(); }
  void on_disconnected(const store::redis::ErrorRow& why, std::string_view text) override;
  void on_elsewhere() override;
  void on_clock_set() override;

  void note_origin(const store::redis::StoreReport& report);
  void changed(breaker::ProbeBreaker::Change change, const store::redis::ErrorRow* why);
  void say_opened(const store::redis::ErrorRow* why);
  void away_if_quiet();
  void back_if_quiet();
  void say_back();
  void set_away(MonoTime since, bool said);
  // What was decided without this store, up to now.
  struct Elsewhere {
    std::uint64_t without = 0;
    std::uint64_t by_fallback = 0;
  };
  Elsewhere elsewhere_so_far() const noexcept {
    return {counters_.without(), counters_.by_fallback()};
  }
  void probe();
  void look_at_epoch();
  bool look_when_closed_ = false;
  void arm();
  void tell(const StoreEvent& event);
  void note_store_time(MonoTime now);

  static constexpr std::int64_t kUnknownOffset = INT64_MIN;
  static constexpr std::int64_t kNotAway = INT64_MIN;

  const Options options_;
  Clock& clock_;
  Observer* observer_;
  Host& host_;
  ladder::ShardLadder ladder_;
  ShardCounters counters_;
  std::atomic<std::int64_t> store_offset_ns_{kUnknownOffset};
  std::atomic<std::int64_t> rtt_ns_{0};  // of the latest answer; 0: none yet
  std::atomic<std::uint64_t> in_flight_{0};
  std::atomic<std::int64_t> away_since_ns_{kNotAway};
  mutable std::mutex connection_mutex_;
  Connection connection_;

  // The loop's alone.
  bool stopping_ = false;
  // What the last report said of whose data the store holds.
  struct Seen {
    std::string run_id;
    std::string epoch;
    std::string shard;
  };
  std::optional<Seen> seen_;
  std::optional<MonoTime> armed_;  // what the host was asked for
  // An outage that is told of, or is about to be.
  struct Away {
    bool now = false;
    bool said = false;  // before the breaker opened
    MonoTime since{};
    Elsewhere before{};
  };
  Away away_;
  std::optional<MonoTime> unconnected_;  // since the last connection that was fit, or the start
  Elsewhere at_last_answer_;
  bool said_skew_ = false;
  Nanos load_off_{0};  // the clock that decides, less this machine's
  std::vector<std::unique_ptr<Flight>> flights_;
  std::vector<std::uint64_t> free_flights_;
  std::vector<GiveBacks::Charge> charges_;
  std::vector<SharedAsk*> sending_;
  Coalescer coalescer_;
  store::redis::RedisClient client_;
  GiveBacks give_backs_;
  FleetSeat seat_;
};

}  // namespace weir::guard
