#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/key_digest.h"
#include "weir/clock.h"
#include "weir/result.h"

namespace weir::ladder {

// What one worker announced in the store.
struct Member {
  std::string name;
  std::uint64_t joined_epoch = 0;  // the fleet's epoch that its joining made
  std::uint64_t seen_epoch = 0;    // the latest epoch it has read
  Instant lease_until{};           // by the store's clock; after it the member is silent
  // The store has lost it; this worker knows it from before and counts it for kSilentPart.
  bool carried = false;

  friend bool operator==(const Member&, const Member&) = default;
};

// The fleet on one shard, as this worker last read it. A value; written to the state folder as it
// is.
//
// The rules, which keep the parts of all workers together within the limit at every moment in which
// they may disagree:
//   a member counts until it has been silent for kSilentPart, so nobody's part grows while it may
//   still spend its own; a joiner counts at once in everybody's division, but holds no part itself
//   until every member whose lease stands has seen the epoch of its joining: the others' parts have
//   shrunk before it spends; the first member holds all; a restart under the same name takes its
//   own part over; who holds a part goes on holding it for as long as it is the same member.
//
// All of it is by the time at which the view was read: a worker that cannot read learns nothing
// about anybody's silence, however long it lasts.
struct MembershipView {
  static constexpr Nanos kSilentPart = std::chrono::minutes(10);

  std::uint64_t history = 0;  // another one: the store has lost what it knew of the fleet
  // Of the store's data; another one: it may have lost some of what it knew. 0: nobody said.
  std::uint64_t origin = 0;
  std::uint64_t epoch = 0;
  std::string self;
  bool held = false;            // this worker held a part by an earlier view already
  std::vector<Member> members;  // self included, in the order of names
  Instant read_at{};            // the store's clock

  // How many take part at the store's time `now`, self included.
  std::uint32_t counted(Instant now) const;
  // Whether this worker may spend a part, by what it read.
  bool holds_part() const;
  // Absent: nobody of that name.
  const Member* member(std::string_view name) const;

  // A line a member; to_text(parse(x)) == x.
  std::string to_text() const;
  // Errors:      invalid_argument, for anything but what to_text() writes.
  static Result<MembershipView> parse(std::string_view text);
};

// Who shares a counter, and this worker's place among them. Made once a view, asked once a counter.
//
// Threads:     immutable.
class Division {
 public:
  // This worker has no part of anything, and says why.
  static Division none(std::string why);
  // As the view says, at the time at which it was read.
  static Division of_view(const MembershipView& view);
  // `workers: {of, index}` of the policy: floor each, and with an index the remainder too.
  static Division fixed(std::uint32_t of, std::optional<std::uint32_t> index);

  std::uint32_t workers() const noexcept { return workers_; }
  bool has_part() const noexcept { return has_part_; }
  const std::string& why_none() const noexcept { return why_none_; }

  // This worker's place in the rendezvous order of one counter: 0 is the first. workers() where it
  // has no part. Guarantees:  the same on every worker that divides by the same members; a joiner
  // changes places only by going
  //              before some.
  std::uint32_t place(const KeyDigest& fleet_digest) const noexcept;

 private:
  Division() = default;

  std::uint32_t workers_ = 0;
  bool has_part_ = false;
  std::string why_none_;
  std::uint64_t self_ = 0;
  std::vector<std::uint64_t> others_;   // digests of the other members' names
  std::optional<std::uint32_t> index_;  // fixed only
  bool fixed_ = false;
};

}  // namespace weir::ladder
