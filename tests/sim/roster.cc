#include "sim/roster.h"

#include <algorithm>
#include <utility>

#include "ladder/membership_keeper.h"
#include "limit/parts.h"

namespace weir::sim {

using ladder::MembershipKeeper;
using ladder::MembershipView;
using store::redis::FleetMember;
using store::redis::FleetReply;

namespace {

bool has_part(const Holder& holder) {
  return holder.view && holder.division.has_part();
}

const FleetMember* record_of(const FleetReply& reply, std::string_view name) {
  for (const FleetMember& member : reply.members) {
    if (member.name == name) return &member;
  }
  return nullptr;
}

}  // namespace

void Roster::beat(std::string_view name, char what, const FleetReply& reply,
                  const std::vector<Holder>& holders, bool replaced) {
  const Number now = ++number_;
  if (what == 'l') {
    if (reply.outcome == FleetReply::Outcome::left) names_.erase(std::string(name));
  } else if (const FleetMember* me = record_of(reply, name)) {
    Name& known = names_[std::string(name)];
    known.beats.push_back({reply.now, loop_.mono(), now});
    // In an older list epochs are given out again: who comes to it as the latest, and had no part,
    // is taken to join it now.
    const bool again = loss_ && !known.back && me->joined_epoch == reply.epoch;
    if (known.joined_epoch != me->joined_epoch || again) {
      // Whoever has a part goes on holding it where the list was lost.
      if (!(loss_ && known.before_loss)) known.joined = now;
      known.joined_epoch = me->joined_epoch;
    }
    if (loss_ && !known.back && !replaced) known.back = now;
  }
  for (auto& [other, known] : names_) {
    const FleetMember* record = record_of(reply, other);
    if (record != nullptr && record->lease_until > reply.now) continue;
    const auto holder = std::find_if(holders.begin(), holders.end(),
                                     [&](const Holder& h) { return h.name == other; });
    const bool has_read_since =
        holder != holders.end() && known.lapsed && read(*holder).number > *known.lapsed;
    if (!known.lapsed || has_read_since) known.lapsed = now;
  }
}

void Roster::lost(std::vector<Holder> holders) {
  const Sight sight = see(std::move(holders));
  std::vector<std::string_view> kept;
  std::vector<std::string_view> out;
  for (std::size_t i = 0; i < sight.holders.size(); ++i) {
    const Holder& holder = sight.holders[i];
    if (has_part(holder)) (sight.left_out[i] ? out : kept).push_back(holder.name);
  }
  loss_ = ++number_;
  for (auto& [name, known] : names_) {
    known.before_loss = std::find(kept.begin(), kept.end(), name) != kept.end();
    known.out_at_loss = std::find(out.begin(), out.end(), name) != out.end();
    known.back.reset();
  }
}

Roster::Beat Roster::read(const Holder& holder) const {
  const auto known = names_.find(holder.name);
  if (known == names_.end() || !holder.view) return {};
  const std::vector<Beat>& beats = known->second.beats;
  const auto found = std::find_if(beats.rbegin(), beats.rend(), [&](const Beat& beat) {
    return beat.store_now == holder.view->read_at;
  });
  return found == beats.rend() ? Beat{} : *found;
}

Roster::Member Roster::member(const Holder& holder) const {
  constexpr Nanos kCounts = MembershipKeeper::kLease + MembershipView::kSilentPart;
  const auto known = names_.find(holder.name);
  Member member{.known = known == names_.end() ? nullptr : &known->second, .read = read(holder)};
  member.forgotten = loop_.mono() - member.read.at >= kCounts;
  member.counts = has_part(holder) && !member.forgotten;
  return member;
}

bool Roster::is_left_out(std::size_t which, const std::vector<Member>& members) const {
  const Member& me = members[which];
  if (me.forgotten) return true;
  if (me.known == nullptr) return false;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Member& other = members[i];
    if (i == which || !other.counts || other.known == nullptr) continue;
    const Name& them = *other.known;
    const Number seen = other.read.number;
    const bool lapsed = them.lapsed && seen <= *them.lapsed;
    if (lapsed && me.known->joined > seen) return true;
    if (!loss_ || me.known->before_loss || !them.before_loss) continue;
    if (!them.back || me.read.number < *them.back || seen < *loss_) return true;
    if (me.known->out_at_loss && (!me.known->back || seen < *me.known->back)) return true;
  }
  return false;
}

Roster::Sight Roster::see(std::vector<Holder> holders) const {
  std::vector<Member> members;
  members.reserve(holders.size());
  for (const Holder& holder : holders) members.push_back(member(holder));
  Sight sight{.holders = std::move(holders), .left_out = {}};
  for (std::size_t i = 0; i < members.size(); ++i) {
    sight.left_out.push_back(is_left_out(i, members));
  }
  return sight;
}

namespace {

std::uint64_t part_of(const limit::Numbers& numbers, const KeyDigest& digest,
                      const ladder::Division& division) {
  const auto part = limit::part_numbers(numbers, {division.place(digest), division.workers()});
  return part ? part->limit : 0;
}

}  // namespace

Roster::Parts Roster::parts(const limit::Numbers& numbers, const KeyDigest& digest,
                            const Sight& sight) {
  Parts parts;
  for (std::size_t i = 0; i < sight.holders.size(); ++i) {
    const Holder& holder = sight.holders[i];
    parts.all = parts.all && has_part(holder) && !sight.left_out[i];
    if (!has_part(holder)) continue;
    const std::uint64_t units = part_of(numbers, digest, holder.division);
    if (!sight.left_out[i]) parts.sum += units;
    parts.with_left_out += units;
  }
  return parts;
}

std::string Roster::parts_text(const limit::Numbers& numbers, const KeyDigest& digest,
                               const Sight& sight) {
  std::string text;
  for (std::size_t i = 0; i < sight.holders.size(); ++i) {
    const Holder& holder = sight.holders[i];
    if (!has_part(holder)) continue;
    text += " " + holder.name + ":" + std::to_string(part_of(numbers, digest, holder.division)) +
            " of " + std::to_string(holder.division.workers()) +
            (sight.left_out[i] ? " (left out)" : "");
  }
  return text;
}

}  // namespace weir::sim
