#include "sim/roster.h"

#include <algorithm>

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
                  const std::vector<Holder>& holders) {
  const Number now = ++number_;
  if (what == 'l') {
    if (reply.outcome == FleetReply::Outcome::left) names_.erase(std::string(name));
  } else if (const FleetMember* me = record_of(reply, name)) {
    Name& known = names_[std::string(name)];
    known.beats.push_back({reply.now, loop_.mono(), now});
    if (known.joined_epoch != me->joined_epoch) {
      // Whoever has a part goes on holding it where the list was lost.
      if (!(loss_ && known.before_loss)) known.joined = now;
      known.joined_epoch = me->joined_epoch;
    }
    if (loss_ && !known.back) known.back = now;
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

void Roster::lost(const std::vector<Holder>& holders) {
  std::vector<std::string_view> kept;
  std::vector<std::string_view> out;
  for (const Holder& holder : holders) {
    if (has_part(holder)) (left_out(holder, holders) ? out : kept).push_back(holder.name);
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

bool Roster::forgotten(const Holder& holder) const {
  constexpr Nanos kCounts = MembershipKeeper::kLease + MembershipView::kSilentPart;
  return loop_.mono() - read(holder).at >= kCounts;
}

bool Roster::left_out(const Holder& holder, const std::vector<Holder>& holders) const {
  if (forgotten(holder)) return true;
  const auto me = names_.find(holder.name);
  if (me == names_.end()) return false;
  for (const Holder& other : holders) {
    if (other.name == holder.name || !has_part(other) || forgotten(other)) continue;
    const auto found = names_.find(other.name);
    if (found == names_.end()) continue;
    const Name& them = found->second;
    const Number seen = read(other).number;
    const bool lapsed = them.lapsed && seen <= *them.lapsed;
    if (lapsed && me->second.joined > seen) return true;
    if (!loss_ || me->second.before_loss || !them.before_loss) continue;
    if (!them.back || read(holder).number < *them.back || seen < *loss_) return true;
    if (me->second.out_at_loss && (!me->second.back || seen < *me->second.back)) return true;
  }
  return false;
}

Roster::Parts Roster::parts(const limit::Numbers& numbers, const KeyDigest& digest,
                            const std::vector<Holder>& holders) const {
  Parts parts;
  for (const Holder& holder : holders) {
    if (!has_part(holder)) {
      parts.all = false;
      continue;
    }
    const auto part =
        limit::part_numbers(numbers, {holder.division.place(digest), holder.division.workers()});
    const bool out = left_out(holder, holders);
    parts.all = parts.all && !out;
    const std::uint64_t units = part ? part->limit : 0;
    if (!out) parts.sum += units;
    parts.with_left_out += units;
    parts.text += " " + holder.name + ":" + std::to_string(units) + " of " +
                  std::to_string(holder.division.workers()) + (out ? " (left out)" : "");
  }
  return parts;
}

}  // namespace weir::sim
