#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ladder/membership.h"
#include "weir/clock.h"

namespace weir::ladder {

// What the store answered to a beat.
struct FleetNews {
  enum class Outcome : std::uint8_t {
    announced,
    ousted,  // another process announces itself by this worker's name
    full,    // there is no room for one more
  };
  Outcome outcome = Outcome::announced;
  std::uint64_t history = 0;
  std::uint64_t epoch = 0;
  Instant now{};  // the store's clock
  std::vector<Member> members;
};

// Decides when this worker announces itself, and what follows from what it hears: which part of
// the limits is its own while the store is away. Knows no network and no disk; whoever owns it
// sends, writes, and says what came of it.
//
//   poll()       a beat is due: send it
//   answered()   or failed(): what came of it
//   to_write()   a view that is to be written to the state folder; written() when it is there
//
// Guarantees:  the store is told that this worker has seen an epoch only once that view is what it
//              divides by and, where it keeps a state folder, once it is written there: a restart
//              never goes back behind what others rely on.
//              A fleet of whatever size beats at most about 50 times a second.
// Threads:     one.
class MembershipKeeper {
 public:
  struct Options {
    std::string self;
    bool writes = false;       // there is a state folder
    std::uint64_t spread = 0;  // of this process: its beats are not in step with others'
  };
  struct Due {
    bool first = false;  // the store has not answered one of this process yet, or may have lost it
    std::uint64_t seen_epoch = 0;
    Nanos lease{0};
  };

  static constexpr Nanos kLease = std::chrono::seconds(15);
  // A third of the lease, as long as the fleet is small enough for that.
  static constexpr Nanos kBeat = kLease / 3;
  // While this worker waits to be seen by the others.
  static constexpr Nanos kHurry = std::chrono::seconds(1);
  // Between two beats of one worker lies at least so much for each member.
  static constexpr Nanos kBeatPerMember = std::chrono::milliseconds(20);
  // A view of the state folder is used by a start up to this age.
  static constexpr Nanos kViewAge = MembershipView::kSilentPart;

  explicit MembershipKeeper(Options options);

  // A view from the state folder, at the machine's time `now`: taken where it is this worker's and
  // young enough. Says why not, otherwise.
  std::optional<std::string> start_from(const MembershipView& view, Instant now);

  // Which data the store holds from now on. After a restart or a failover it may be an older list
  // of members than the one that was read before: this worker announces itself anew, and what it
  // has seen of another list it has not seen of this one.
  void set_origin(std::uint64_t origin) noexcept { origin_ = origin; }
  // The store is there (again): a beat is due at once.
  void store_there(MonoTime now);
  // It is not: no beats.
  void store_away();
  std::optional<MonoTime> next_beat() const;
  // The beat to send, where one is due. None other is until answered() or failed().
  std::optional<Due> poll(MonoTime now);

  // Whether one is on its way.
  bool beat_out() const noexcept { return out_; }

  // Returns whether the division may have changed.
  bool answered(const FleetNews& news, MonoTime now);
  void failed(MonoTime now);

  // A view that is to be written, handed out once; the last one wins.
  std::optional<std::string> to_write();
  // So much of what was handed out stands in the state folder.
  void written(std::uint64_t epoch, MonoTime now);

  const std::optional<MembershipView>& view() const noexcept { return view_; }
  // By what is known now; without a view there is no part.
  Division division() const;
  // Whether the store has answered a beat of this process.
  bool announced() const noexcept { return !first_; }
  bool ousted() const noexcept { return ousted_; }

 private:
  Nanos least_gap() const;
  Nanos gap() const;
  std::uint64_t seen_epoch(MonoTime now) const;
  void schedule(MonoTime now);
  MembershipView merged(const FleetNews& news) const;
  static void carry_over(const MembershipView& before, MembershipView& next);

  const Options options_;
  std::uint64_t spread_;
  std::optional<MembershipView> view_;
  std::uint64_t origin_ = 0;     // of the data that the store holds
  std::uint64_t announced_ = 0;  // of those in which this process was announced
  bool first_ = true;
  bool ousted_ = false;
  bool full_ = false;
  bool there_ = false;
  bool out_ = false;  // a beat is on its way
  MonoTime next_{};
  MonoTime last_sent_{};
  std::uint64_t told_epoch_ = 0;  // the latest that the store knows this worker has seen

  std::uint64_t written_epoch_ = 0;  // in the state folder
  bool to_write_ = false;
  bool writing_ = false;  // a view newer than what stands there is on its way
  MonoTime writing_since_{};
  Instant last_write_{};  // the read_at of what was last handed out
};

}  // namespace weir::ladder
