#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "breaker/fleet_carrier.h"
#include "guard/circuit_hints.h"
#include "guard/store_line.h"
#include "store/redis/circuit.h"
#include "store/redis/physical_key.h"
#include "weir/breaker.h"

namespace weir {
class BreakerCore;
}

namespace weir::guard {

// Carries the words of shared breakers to the store, and what stands there back.
//
// Guarantees:  a change of any breaker is seen within kPoll and a fifth, and one round trip; where
//              the store tells of it, within one round trip. A record that vanished is seen within
//              kRead. While nothing changes the store sees one GET in kPoll for all breakers
//              together, and a vote of each in half the time that it counts; however many hints
//              come, one look more in kHintPace, and kHintsAtOnce once it was quiet for a while.
// Threads:     the loop's alone, where nothing else is said.
class CircuitDesk final : public breaker::FleetCarrier {
 public:
  static constexpr Nanos kPoll = std::chrono::milliseconds(100);
  // Everything is read again, whether it changed or not.
  static constexpr Nanos kRead = std::chrono::seconds(2);
  // Looks because of hints: one in so long, and so many that follow one another at once, as where a
  // dependency goes and takes several breakers with it.
  static constexpr Nanos kHintPace = std::chrono::milliseconds(50);
  static constexpr int kHintsAtOnce = 4;
  // A store that has said nothing for so long, or for twice its deadline, is away.
  static constexpr Nanos kSilence = std::chrono::milliseconds(500);

  // `wake_at` asks for on_wake() then: one wake-up, a later one replaces an earlier one.
  CircuitDesk(StoreLine& line, store::redis::KeySpace keys, Clock& clock, Nanos deadline,
              std::uint64_t random, std::function<void(MonoTime)> wake_at);

  // Changes are told through it, too. Before the first watch().
  void listen(CircuitHints& hints) { hints_ = &hints; }
  // The store told of a change: `news` is what stands at the changes' key since then.
  void hinted(std::string_view news);
  void on_wake();
  // The connection came, or went.
  void line_changed();

  // ---- From any thread.

  // Where changes are published.
  static std::string channel(const store::redis::KeySpace& keys) {
    return keys.meta({}, "circuits");
  }
  // These are shared from now on, and no others.
  void watch(std::vector<Breaker> breakers);
  // None is; nothing is called back any more.
  void close() { watch({}); }

  void poke() noexcept override;
  bool answers() const noexcept override;
  bool pushed() const noexcept override { return hints_ != nullptr && hints_->listening(); }
  bool may_wait() const noexcept override { return !line_.in_loop(); }
  Nanos patience() const noexcept override { return deadline_; }

 private:
  struct Watched {
    std::shared_ptr<BreakerCore> core;
    std::string key;
  };
  using List = std::shared_ptr<const std::vector<Watched>>;

  List list() const;
  void tell(const Watched& watched);
  void tell_all();
  void look();
  void looked(const store::redis::ErrorRow* error, const store::redis::Reply* reply, bool late);
  void read_all();
  void read(const List& of, std::size_t from);
  void look_again();
  MonoTime next_hinted() const { return hints_paid_ - (kHintsAtOnce - 1) * kHintPace; }
  void hint_taken(MonoTime now);
  void tend_hints();
  void arm();
  void heard();

  StoreLine& line_;
  const store::redis::KeySpace keys_;
  Clock& clock_;
  const Nanos deadline_;
  const Nanos silence_;
  const std::string changes_key_;
  const std::uint16_t slot_;
  const std::function<void(MonoTime)> wake_at_;

  mutable std::mutex mutex_;  // list_
  List list_ = std::make_shared<const std::vector<Watched>>();
  std::uint64_t whos_;  // drawn from; under mutex_
  std::atomic<bool> poked_{false};
  std::atomic<std::int64_t> heard_at_{INT64_MIN};

  // The loop's alone.
  std::uint64_t random_;
  CircuitHints* hints_ = nullptr;
  std::optional<std::string> hint_;  // that waits for a look
  MonoTime hints_paid_{};            // looks because of hints have used the pace up till then
  MonoTime next_look_{};             // by itself
  bool looking_ = false;
  bool was_up_ = false;
  std::string changes_;
  MonoTime read_again_{};
};

}  // namespace weir::guard
