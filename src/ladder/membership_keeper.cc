#include "ladder/membership_keeper.h"

#include <algorithm>
#include <utility>

#include "base/random.h"

namespace weir::ladder {
namespace {

// A view is written again at least so often, so that a start finds a young one.
constexpr Nanos kWriteAge = std::chrono::minutes(1);

// Whether two views say the same about who is there.
bool same_members(const MembershipView& a, const MembershipView& b) {
  return a.history == b.history && a.origin == b.origin && a.epoch == b.epoch &&
         a.holds_part() == b.holds_part() &&
         std::equal(a.members.begin(), a.members.end(), b.members.begin(), b.members.end(),
                    [](const Member& x, const Member& y) { return x.name == y.name; });
}

}  // namespace

MembershipKeeper::MembershipKeeper(Options options)
    : options_(std::move(options)), spread_(options_.spread) {}

std::optional<std::string> MembershipKeeper::start_from(const MembershipView& view, Instant now) {
  if (view.self != options_.self) {
    return "it is that of worker '" + view.self + "', and this one is '" + options_.self + "'";
  }
  if (view.member(view.self) == nullptr) return "this worker is not in it";
  const Nanos age = now - view.read_at;
  if (age >= kViewAge || age <= -kViewAge) return "it is not from the last ten minutes";
  view_ = view;
  written_epoch_ = view.epoch;
  last_write_ = view.read_at;
  return std::nullopt;
}

// ---- When to beat
// -------------------------------------------------------------------------------

void MembershipKeeper::store_there(MonoTime now) {
  there_ = true;
  next_ = now;
}

void MembershipKeeper::store_away() {
  there_ = false;
}

std::optional<MonoTime> MembershipKeeper::next_beat() const {
  if (!there_ || out_) return std::nullopt;
  return next_;
}

Nanos MembershipKeeper::least_gap() const {
  const std::size_t members = view_ ? view_->members.size() : 1;
  return kBeatPerMember * static_cast<std::int64_t>(members);
}

Nanos MembershipKeeper::gap() const {
  return std::max<Nanos>(kBeat, least_gap());
}

std::optional<MembershipKeeper::Due> MembershipKeeper::poll(MonoTime now) {
  if (!there_ || out_ || now < next_) return std::nullopt;
  out_ = true;
  last_sent_ = now;
  // An older list may have an earlier process of this name; whoever has found itself replaced
  // replaces nobody in turn.
  const bool anew = announced_ != origin_ && !ousted_;
  return Due{.first = first_ || anew, .seen_epoch = seen_epoch(now), .lease = 3 * gap()};
}

// A disk that needs longer than a lease is no reason to hold up others.
std::uint64_t MembershipKeeper::seen_epoch(MonoTime now) const {
  if (!view_ || view_->origin != origin_) return 0;
  if (!options_.writes || (writing_ && now - writing_since_ > kLease)) return view_->epoch;
  return std::min(written_epoch_, view_->epoch);
}

void MembershipKeeper::schedule(MonoTime now) {
  // In step with nobody: within a tenth of the gap.
  const Nanos whole = gap();
  const auto tenth = static_cast<std::uint64_t>(whole.count() / 10);
  next_ = now + whole - Nanos(static_cast<std::int64_t>(next_random(spread_) % (tenth + 1)));
  if (!view_) return;
  const bool to_tell = !ousted_ && seen_epoch(now) > told_epoch_;
  if (to_tell) next_ = std::min(next_, std::max(now, last_sent_ + least_gap()));
  if (!ousted_ && !view_->holds_part()) {
    next_ = std::min(next_, now + std::max<Nanos>(kHurry, least_gap()));
  }
}

// ---- What follows
// -------------------------------------------------------------------------------

bool MembershipKeeper::answered(const FleetNews& news, MonoTime now) {
  out_ = false;
  if (news.outcome == FleetNews::Outcome::ousted) {
    const bool changed = !ousted_;
    ousted_ = true;
    schedule(now);
    return changed;
  }
  const bool was_first = std::exchange(first_, false);
  const bool was_ousted = std::exchange(ousted_, false);
  full_ = news.outcome == FleetNews::Outcome::full;
  if (full_) first_ = was_first;
  announced_ = origin_;
  MembershipView next = merged(news);
  // What stands in the state folder is of another list.
  if (view_ && view_->origin != next.origin) written_epoch_ = 0;
  const bool changed = was_ousted || !view_ || !same_members(*view_, next);
  view_ = std::move(next);
  const Member* me = view_->member(view_->self);
  told_epoch_ = me != nullptr ? me->seen_epoch : 0;
  if (options_.writes && me != nullptr &&
      (changed || view_->read_at - last_write_ >= kWriteAge || view_->read_at < last_write_)) {
    to_write_ = true;
    if (!std::exchange(writing_, true)) writing_since_ = now;
  }
  schedule(now);
  return changed;
}

MembershipView MembershipKeeper::merged(const FleetNews& news) const {
  MembershipView next;
  next.history = news.history;
  next.origin = origin_;
  next.epoch = news.epoch;
  next.self = options_.self;
  next.members = news.members;
  next.read_at = news.now;
  if (view_) carry_over(*view_, next);
  std::sort(next.members.begin(), next.members.end(),
            [](const Member& a, const Member& b) { return a.name < b.name; });
  return next;
}

// What an earlier view says beside the new one. A store that has lost what it knew of the fleet, or
// may have lost some of it, does not know that others hold parts: they count as if they had just
// gone silent. This worker holds on to its own part for the same reason: all of them count it, but
// for those who have waited for it until it was forgotten.
void MembershipKeeper::carry_over(const MembershipView& before, MembershipView& next) {
  const bool lost = before.history != next.history || before.origin != next.origin;
  for (const Member& member : before.members) {
    if (member.name == next.self || next.member(member.name) != nullptr) continue;
    if (!lost && !member.carried) continue;
    Member kept = member;
    if (!member.carried) {
      kept.carried = true;
      kept.lease_until = next.read_at;
    }
    if (next.read_at < kept.lease_until + MembershipView::kSilentPart) next.members.push_back(kept);
  }
  const Member* me = next.member(next.self);
  const Member* then = before.member(next.self);
  if (me == nullptr || then == nullptr || !before.holds_part()) return;
  const bool counted = next.read_at - before.read_at < MembershipView::kSilentPart;
  next.held = (lost && counted) || me->joined_epoch == then->joined_epoch;
}

void MembershipKeeper::failed(MonoTime now) {
  out_ = false;
  next_ = now + std::max<Nanos>(kHurry, least_gap());
}

std::optional<std::string> MembershipKeeper::to_write() {
  if (!std::exchange(to_write_, false)) return std::nullopt;
  last_write_ = view_->read_at;
  return view_->to_text();
}

void MembershipKeeper::written(std::uint64_t epoch, MonoTime now) {
  written_epoch_ = epoch;
  if (view_ && epoch >= view_->epoch) writing_ = false;
  if (there_ && !out_) schedule(now);
}

Division MembershipKeeper::division() const {
  if (ousted_) {
    return Division::none("another process announces itself as worker '" + options_.self +
                          "'; give each its own name");
  }
  if (!view_) return Division::none("has not read the fleet's members yet");
  if (full_) return Division::none("the fleet has as many members as it can hold");
  return Division::of_view(*view_);
}

}  // namespace weir::ladder
