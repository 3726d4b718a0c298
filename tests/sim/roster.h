#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
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
// it. Where the list is lost once more while somebody is left out, it is so until those who do not
// count it have read it in the new list: it comes there with its part, as everybody does.
class Roster {
 public:
  explicit Roster(testing::SimLoop& loop) : loop_(loop) {}

  // The server carried a beat out. `replaced`: one that another server took the place of, which it
  // has not heard of.
  void beat(std::string_view name, char what, const store::redis::FleetReply& reply,
            const std::vector<Holder>& holders, bool replaced = false);
  // The store has lost its list, or a part of it.
  void lost(std::vector<Holder> holders);

  // Some workers at one moment, and which of them are left out, whatever limit it is that they
  // share.
  struct Sight {
    std::vector<Holder> holders;
    std::vector<bool> left_out;
  };
  Sight see(std::vector<Holder> holders) const;

  // The parts of one limit at that moment that must fit it together.
  struct Parts {
    std::uint64_t sum = 0;
    std::uint64_t with_left_out = 0;
    bool all = true;  // nobody's was left out, and everybody has one
  };
  static Parts parts(const limit::Numbers& numbers, const KeyDigest& digest, const Sight& sight);
  // The same in words.
  static std::string parts_text(const limit::Numbers& numbers, const KeyDigest& digest,
                                const Sight& sight);

 private:
  // What came after what: several beats may be of one instant.
  using Number = std::uint64_t;
  struct Beat {
    Instant store_now;
    MonoTime at;
    Number number;
  };
  struct Name {
    std::vector<Beat> beats;
    std::uint64_t joined_epoch = 0;
    Number joined = 0;
    std::optional<Number> lapsed;  // found without a standing lease
    bool before_loss = false;      // it had a part when the list was lost
    bool out_at_loss = false;      // it had one then, and was left out
    std::optional<Number> back;    // first beat after that
  };

  // A worker that lives, as the others have to reckon with it.
  struct Member {
    const Name* known = nullptr;  // null: it never came to the list
    Beat read{};                  // the beat whose answer is the view that it goes by
    bool forgotten = false;
    bool counts = false;  // it has a part, and is not forgotten
  };
  Member member(const Holder& holder) const;
  Beat read(const Holder& holder) const;
  bool is_left_out(std::size_t which, const std::vector<Member>& members) const;

  testing::SimLoop& loop_;
  std::map<std::string, Name, std::less<>> names_;
  std::optional<Number> loss_;  // the latest
  Number number_ = 0;
};

}  // namespace weir::sim
