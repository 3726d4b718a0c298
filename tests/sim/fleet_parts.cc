#include <algorithm>
#include <chrono>

#include "limit/parts.h"
#include "sim/fleet_run.h"

namespace weir::sim {

using namespace std::chrono_literals;
using limit::Numbers;

namespace {

// How often the parts of the whole fleet are looked at, besides whenever somebody uses one.
constexpr Nanos kLook = 1s;
// Until those who joined last have been seen by everybody, and the leases of the dead are over.
constexpr Nanos kSettled = 25s;
// Until the dead are forgotten, and that has been read.
constexpr Nanos kForgotten = ladder::MembershipView::kSilentPart + 30s;

}  // namespace

// ---- Parts.

Fleet::Sights Fleet::look() {
  Sights sights;
  for (std::size_t shard = 0; shard < rosters_.size(); ++shard)
    sights.push_back(rosters_[shard].see(holders(shard)));
  return sights;
}

void Fleet::look_at_parts(const Sights& sights, std::size_t place, std::size_t user) {
  const auto& rules = route(0, place).rules;
  for (std::size_t rule = 0; rule < rules.size(); ++rule) {
    const Target& target = history_.targets[place][user][rule];
    const Roster::Sight& sight = sights[target.shard];
    const Numbers& numbers = rules[rule].numbers;
    const Roster::Parts parts = Roster::parts(numbers, target.digest, sight);
    if (parts.with_left_out > numbers.limit) history_.left_out_above = true;
    if (parts.sum <= numbers.limit || history_.over_parts.size() >= 4) continue;
    const auto us =
        std::chrono::duration_cast<std::chrono::microseconds>(loop_.mono() - history_.began);
    history_.over_parts.push_back(std::to_string(us.count()) + "us parts of " +
                                  route(0, place).name + " sum to " + std::to_string(parts.sum) +
                                  ":" + Roster::parts_text(numbers, target.digest, sight));
  }
}

void Fleet::look_again() {
  // Until the last question: from then on nobody uses any.
  if (loop_.mono() > looked_until_) return;
  const Sights sights = look();
  for (std::size_t place = 0; place < routes(); ++place) {
    for (std::size_t user = 0; user < kUsers.size(); ++user) look_at_parts(sights, place, user);
  }
  loop_.after(kLook, [this] { look_again(); });
}

void Fleet::everybody_has_a_part() {
  loop_.run_for(kSettled);
  for (std::size_t shard = 0; shard < servers_.shards(); ++shard) {
    for (const Holder& holder : holders(shard)) {
      if (!holder.division.has_part()) {
        history_.no_part.push_back(holder.name + ": " + holder.division.why_none());
      }
    }
  }
  if (!scenario_.ends_late) return;
  loop_.run_for(kForgotten);
  const Sights sights = look();
  for (std::size_t place = 0; place < routes(); ++place) {
    const Target& target = history_.targets[place][0][0];
    const Roster::Sight& sight = sights[target.shard];
    const Numbers& numbers = route(0, place).rules.front().numbers;
    const Roster::Parts parts = Roster::parts(numbers, target.digest, sight);
    const std::uint64_t whole = numbers.limit;
    if (parts.sum == whole && parts.all) continue;
    history_.no_part.push_back(
        "of " + std::to_string(whole) + " only " + std::to_string(parts.sum) +
        " are anybody's:" + Roster::parts_text(numbers, target.digest, sight));
  }
}

void Fleet::note_flood() {
  const Numbers& numbers = route(0, flood_route()).rules.front().numbers;
  const std::uint64_t whole = numbers.limit;
  if (!scenario_.members) {
    history_.flood_parts = whole;
    return;
  }
  const std::uint64_t offered = whole / kWorkers + 3;  // to each
  const Target& target = history_.targets[flood_route()][0][0];
  const Roster::Sight sight = rosters_[target.shard].see(holders(target.shard));
  const Roster::Parts parts = Roster::parts(numbers, target.digest, sight);
  if (!parts.all || parts.sum != whole) return;
  std::uint64_t sum = 0;
  for (const Holder& holder : sight.holders) {
    const auto part = limit::part_numbers(
        numbers, {holder.division.place(target.digest), holder.division.workers()});
    if (part) sum += std::min<std::uint64_t>(part->limit, offered);
  }
  history_.flood_parts = sum;
}

}  // namespace weir::sim
