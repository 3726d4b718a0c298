#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ledger/ledger.h"
#include "testing/forgetful_disk.h"

namespace weir::sim {

enum class Canary : std::uint8_t;

// The ledger of a fleet, on a machine of its own: the one that ships, on a disk that forgets what
// was not synced.
class SimLedger {
 public:
  explicit SimLedger(Canary canary) : canary_(canary) {}

  // A settler's way to it.
  Result<std::unique_ptr<ledger::Ledger>> open();

  void set_away(bool away) noexcept { away_ = away; }
  // The next so many transactions are carried out, and nobody hears of it.
  void lose_words(std::uint64_t count) noexcept { words_to_lose_ = count; }
  // Its power goes at the nth operation of its disk from now on, and is back for who asks next.
  void cut_power_at(std::uint64_t nth);

  // One event that it billed, as its tables have it.
  struct Entry {
    std::uint64_t process = 0;  // the halves of its id
    std::uint64_t count = 0;
    std::string tenant;
    std::string route;
    std::string rule;
    Instant at{};
    Instant window_start{};
    std::uint64_t units = 0;
    std::uint64_t overspent = 0;
    std::uint64_t billed = 0;
  };
  Result<std::vector<Entry>> entries();
  // An idempotency key that it has billed.
  struct Key {
    std::string tenant;
    std::string route;
    std::string key;
    Instant at{};
    std::uint64_t units = 0;
  };
  Result<std::vector<Key>> keys();
  // Whether its sums agree with each other, and what they come to.
  Result<std::uint64_t> units();

 private:
  class Door;
  using Real = ledger::Ledger;

  Result<Real*> real();
  template <class Do>
  auto use(Do what) -> decltype(what(std::declval<Real&>()));
  Result<std::vector<ledger::Applied>> apply(std::uint64_t journal,
                                             std::span<const ledger::StoredEvent> events,
                                             Instant now);
  Result<ledger::JournalBalance> balance(std::uint64_t journal);

  const Canary canary_;
  testing::ForgetfulDisk disk_;
  std::unique_ptr<Real> real_;
  bool away_ = false;
  std::uint64_t words_to_lose_ = 0;
  std::uint64_t restarts_ = 0;
  std::uint64_t applied_ = 0;                         // batches, for the canaries
  std::uint64_t sessions_ = 0;                        // for them, too
  std::map<std::uint64_t, std::uint64_t> forgotten_;  // what a forgetful one was told
};

}  // namespace weir::sim
