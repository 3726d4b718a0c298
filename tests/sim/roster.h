#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/key_digest.h"
#include "ladder/membership.h"
#include "limit/numbers.h"
#include "store/redis/beat.h"
#include "testing/sim/sim_loop.h"

namespace weir::sim {

// One worker that lives, on one shard: what it divides by, and the view that this follows from.
struct Holder {
  std::string name;
  std::optional<ladder::MembershipView> view;
  ladder::Division division;
};

// What really happened to the fleet of one shard, as nobody in it knows: who was counted when, and
// whose announcements the others may have stopped waiting for. From this follows at every moment
// which workers' parts must be within the limit together.
//
// Left out are, as docs/concepts/failure.md says: whoever joined unseen by a worker whose lease was
// over, for as long as that worker has not read again; a worker that was silent until it was
// forgotten; and, where the store has lost its list, whoever joins before the others are back in
// it.
class Roster {
 public:
  explicit Roster(testing::SimLoop& loop) : loop_(loop) {}

  // The server carried a beat out.
  void beat(std::string_view name, char what, const store::redis::FleetReply& reply,
            const std::vector<Holder>& holders);
  // The store has lost its list, or a part of it.
  void lost(const std::vector<Holder>& holders);

  // The parts of one limit at this moment that must fit it together.
  struct Parts {
    std::uint64_t sum = 0;
    bool all = true;  // nobody's was left out, and everybody has one
    std::string text;
  };
  Parts parts(const limit::Numbers& numbers, const KeyDigest& digest,
              const std::vector<Holder>& holders) const;

 private:
  struct Name {
    std::vector<std::pair<Instant, MonoTime>> beats;  // by the store's clock, and when it was
    std::uint64_t joined_epoch = 0;
    MonoTime joined{};
    std::optional<MonoTime> lapsed;  // found without a standing lease
    bool before_loss = false;        // it had a part when the list was lost
    std::optional<MonoTime> back;    // first beat after that
  };

  // When the store made the view that a worker goes by.
  MonoTime read(const Holder& holder) const;
  bool forgotten(const Holder& holder) const;
  bool left_out(const Holder& holder, const std::vector<Holder>& holders) const;

  testing::SimLoop& loop_;
  std::map<std::string, Name, std::less<>> names_;
  std::optional<MonoTime> loss_;  // until everybody is back, and has been read to be
};

}  // namespace weir::sim
