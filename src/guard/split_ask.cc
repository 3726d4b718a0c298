#include "guard/split_ask.h"

#include <algorithm>
#include <array>
#include <utility>

namespace weir::guard {

using ladder::LadderRequest;
using ladder::LadderVerdict;
using store::Counter;
using store::Finding;

namespace {

int distance(Rung rung) noexcept {
  switch (rung) {
    case Rung::store:
      return 0;
    case Rung::known:
      return 1;
    case Rung::share:
      return 3;
    case Rung::policy:
      return 4;
    case Rung::journal:
      return 5;
    default:
      return 2;
  }
}

int weight(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::allowed:
      return 0;
    case Verdict::refused:
      return 1;
    case Verdict::limited:
      return 2;
  }
  return 0;
}

// Nobody counted it whole: the route's ceiling is the last brake, once a request.
bool braked(const LadderVerdict& verdict) noexcept {
  return verdict.rung == Rung::share || verdict.rung == Rung::policy ||
         verdict.rung == Rung::journal;
}

// Of a counter that was charged and is given back: what it would say had it not been.
void not_charged(const Counter& counter, Finding& finding) noexcept {
  if (!finding.charged) return;
  const std::uint64_t burst = finding.newer ? finding.newer->burst : counter.numbers->burst;
  const std::uint64_t left = finding.step.remaining + finding.units;
  finding.step.remaining = static_cast<std::uint32_t>(std::min(left, burst));
  finding.charged = false;
  finding.units = 0;
  finding.reset_known = false;
}

// Of one worker's part, or beyond it: nobody counted that in a store.
bool spent_here(const LadderVerdict& verdict) noexcept {
  return verdict.verdict == Verdict::allowed &&
         (verdict.rung == Rung::share || verdict.rung == Rung::journal);
}

std::uint64_t bit(std::size_t i) noexcept {
  return std::uint64_t{1} << i;
}

// Bits of a part's counters among those of the whole, and the other way round.
std::uint64_t spread(std::uint64_t bits, std::span<const std::size_t> places) noexcept {
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if ((bits & bit(i)) != 0) out |= bit(places[i]);
  }
  return out;
}
std::uint64_t gather(std::uint64_t bits, std::span<const std::size_t> places) noexcept {
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if ((bits & bit(places[i])) != 0) out |= bit(i);
  }
  return out;
}

// What was taken from parts is usage that is recorded before anybody is told, as one server's
// ladder says of its own.
bool to_record(const LadderRequest& whole, const LadderVerdict& verdict) noexcept {
  return verdict.verdict == Verdict::allowed && whole.metered != 0 && whole.cost > 0;
}

}  // namespace

LadderRequest part_of(const LadderRequest& whole, std::span<const Counter> counters,
                      std::span<const std::size_t> places) noexcept {
  LadderRequest part = whole;
  part.counters = counters;
  part.ceiling = nullptr;
  part.metered = gather(whole.metered, places);
  part.late = gather(whole.late, places);
  part.decided_elsewhere = gather(whole.decided_elsewhere, places);
  const std::size_t limits = whole.counters.size() - whole.marks;
  part.marks = static_cast<std::size_t>(
      std::count_if(places.begin(), places.end(), [&](std::size_t i) { return i >= limits; }));
  return part;
}

Finding undecided(const Counter& counter) noexcept {
  Finding finding{
      .op = counter.op, .remaining_known = false, .retry_known = false, .reset_known = false};
  finding.step.outcome = limit::Outcome::allowed;
  return finding;
}

void JoinedVerdict::add(const LadderVerdict& part) noexcept {
  if (!joined_) {
    joined_ = part;
    return;
  }
  const bool numbers = joined_->numbers_known || part.numbers_known;
  const bool unenforced = joined_->unenforced || part.unenforced;
  const int was = weight(joined_->verdict);
  const int is = weight(part.verdict);
  if (is > was) {
    joined_ = part;
  } else if (is == was) {
    std::optional<Nanos> wait;  // as long as the longest, where all are known
    if (joined_->retry_after && part.retry_after) {
      wait = std::max(*joined_->retry_after, *part.retry_after);
    }
    const bool useless =
        joined_->reason == Reason::cost_exceeds_burst || part.reason == Reason::cost_exceeds_burst;
    if (distance(part.rung) > distance(joined_->rung)) joined_ = part;
    joined_->retry_after = wait;
    if (useless && joined_->verdict == Verdict::limited) {
      joined_->reason = Reason::cost_exceeds_burst;
      joined_->retry_after.reset();
    }
  }
  joined_->numbers_known = numbers;
  joined_->unenforced = unenforced;
}

// What is kept as envoyproxy/ratelimit keeps it lies in another slot with each window: whoever goes
// together now is parted in the next.
bool SplitAsk::goes_with(const Part& part, const Counter& counter, std::uint16_t slot) noexcept {
  return part.slot == slot && counter.kept == store::Kept::weir;
}

SplitAsk::SplitAsk(SharedAsk& whole, std::span<const std::uint16_t> slots, SlotOwners& owners)
    : whole_(whole), owners_(owners) {
  whole.late = std::make_shared<LateCharges>();
  const std::span<const Counter> counters = whole.request.counters;
  for (std::size_t i = 0; i < counters.size(); ++i) {
    auto found = std::find_if(parts_.begin(), parts_.end(), [&](const auto& part) {
      return goes_with(*part, counters[i], slots[i]);
    });
    if (found == parts_.end()) {
      parts_.push_back(std::make_unique<Part>());
      found = parts_.end() - 1;
      (*found)->of = this;
      (*found)->slot = slots[i];
    }
    (*found)->places.push_back(i);
    (*found)->counters.push_back(counters[i]);
  }
  for (const auto& part : parts_) {
    part->request = part_of(whole.request, part->counters, part->places);
    if (part->request.marks > 0) marked_ = part.get();
    part->where = whole.where;
    part->answer_by = whole.answer_by;
    part->loaded_at = whole.loaded_at;
    part->late = whole.late;
  }
  waiting_ = parts_.size() - (marked_ != nullptr ? 1 : 0);
}

bool SplitAsk::begin() noexcept {
  busy_ = true;
  for (const auto& part : parts_) {
    if (part.get() != marked_) part->sent = owners_.owner(part->slot).begin(*part);
  }
  if (denied()) {
    // What would have been asked is not any more.
    for (const auto& part : parts_) {
      part->held.reset();
      part->sent = false;
    }
    waiting_ = 0;
  }
  if (waiting_ == 0) begin_marked();
  busy_ = false;
  if (waiting_ > 0) return true;
  finish();
  return false;
}

bool SplitAsk::denied() const noexcept {
  return std::any_of(parts_.begin(), parts_.end(), [](const auto& part) {
    return part->answered && part->verdict.verdict != Verdict::allowed;
  });
}

// Where there is such a part. Requires: all others are decided; busy_.
void SplitAsk::begin_marked() noexcept {
  if (marked_ == nullptr) return;
  Part& part = *std::exchange(marked_, nullptr);
  part.looks = denied();
  if (part.looks) {
    for (Counter& counter : part.counters) counter.cost = 0;
    part.request.cost = 0;
  }
  ++waiting_;
  part.sent = owners_.owner(part.slot).begin(part);
}

// The part that only looked, where it came upon the marks: the request was admitted before, or the
// key is another one's.
const SplitAsk::Part* SplitAsk::standing() const noexcept {
  for (const auto& part : parts_) {
    const bool by_store = part->verdict.rung == Rung::store || part->verdict.rung == Rung::fallback;
    if (!part->looks || !part->answered || !by_store) continue;
    const auto marks = part->findings().last(part->request.marks);
    const bool stands = std::any_of(marks.begin(), marks.end(),
                                    [](const Finding& mark) { return mark.step.remaining == 0; });
    if (stands) return part.get();
  }
  return nullptr;
}

// As long as one of them has not been sent, the whole is not decided.
void SplitAsk::send(std::vector<Sending>& out) {
  for (const auto& part : parts_) {
    if (part->sent) out.push_back({part.get(), part->asked_of});
    // It owns itself from here on.
    if (part->held) out.push_back({part->held.release(), part->held_at});
  }
}

void SplitAsk::no_room() noexcept {
  busy_ = true;
  for (const auto& part : parts_) {
    if (part->sent) part->asked_of->no_room(*part);
    if (part->held) part->held_at->no_room(*part->held.release());
  }
  if (Part* const marked = std::exchange(marked_, nullptr)) {
    ++waiting_;
    owners_.owner(marked->slot).no_room(*marked);
  }
  busy_ = false;
  finish_if_decided();
}

void SplitAsk::part_decided() noexcept {
  --waiting_;
  if (!busy_) finish_if_decided();
}

void SplitAsk::finish_if_decided() noexcept {
  if (waiting_ > 0) return;
  if (Part* const marked = marked_) {
    busy_ = true;
    begin_marked();
    busy_ = false;
    if (marked->sent) return owners_.send_soon(*marked, *marked->asked_of);
    // It owns itself from here on.
    if (marked->held) return owners_.send_soon(*marked->held.release(), *marked->held_at);
  }
  finish();
  delete this;
}

LadderVerdict SplitAsk::join() noexcept {
  if (const Part* const part = standing()) {
    return {.verdict = Verdict::limited,
            .rung = part->verdict.rung,
            .reason = Reason::over_limit,
            .retry_after = {},
            .numbers_known = true};
  }
  JoinedVerdict joined;
  bool brake = false;
  bool sent = false;
  for (const auto& part : parts_) {
    if (!part->answered || part->looks) continue;
    joined.add(part->verdict);
    sent |= part->verdict.rung == Rung::store || part->verdict.was_sent;
    // That a rule is away which denies nobody is no reason to hold the others to the ceiling.
    brake |= braked(part->verdict) && !part->request.denied_by_none();
  }
  LadderVerdict verdict = joined.verdict();
  verdict.was_sent = sent && verdict.rung != Rung::store;
  if (verdict.verdict == Verdict::allowed && brake) {
    const Instant now = parts_.front()->asked_of->moment().store;
    (void)ladder::ShardLadder::under_ceiling(whole_.request, now, verdict);
  }
  if (verdict.verdict == Verdict::refused) verdict.numbers_known = false;
  note_parts(verdict);
  return verdict;
}

// Which counters were decided where.
void SplitAsk::note_parts(LadderVerdict& verdict) const noexcept {
  verdict.by_store = verdict.by_fallback = verdict.overspent = 0;
  verdict.record = false;
  if (verdict.verdict != Verdict::allowed) return;
  for (const auto& part : parts_) {
    const LadderVerdict& by = part->verdict;
    if (by.rung == Rung::store) verdict.by_store |= spread(~std::uint64_t{0}, part->places);
    if (by.rung == Rung::fallback) verdict.by_fallback |= spread(~std::uint64_t{0}, part->places);
    verdict.overspent |= spread(by.overspent, part->places);
    verdict.record |= spent_here(by) && to_record(whole_.request, verdict);
  }
}

void SplitAsk::collect(bool allowed) {
  const std::span<Finding> findings = whole_.findings();
  for (const auto& part : parts_) {
    const std::span<const Finding> found = part->findings();
    for (std::size_t i = 0; i < part->places.size(); ++i) {
      Finding& into = findings[part->places[i]];
      const bool known = part->answered && part->verdict.numbers_known;
      into = known ? found[i] : undecided(part->counters[i]);
      if (!allowed) not_charged(part->counters[i], into);
      const bool mark = part->looks && i + part->request.marks >= part->places.size();
      if (mark && known && into.step.remaining == 0) into.step.outcome = limit::Outcome::limited;
    }
  }
}

// What a store turned out to have charged for parts that were decided without it. Bit i: of the
// whole's counter i.
std::uint64_t SplitAsk::give_back_late() {
  std::uint64_t which = 0;
  for (const LateCharges::Charge& charge : whole_.late->withdraw()) {
    for (const auto& part : parts_) {
      for (std::size_t i = 0; i < part->places.size(); ++i) {
        const Counter& counter = part->counters[i];
        if (counter.identity != charge.identity || counter.digest != charge.digest) continue;
        part->asked_of->give_back(*part, {&counter, 1}, {&charge.found, 1});
        which |= bit(part->places[i]);
      }
    }
  }
  return which;
}

// What the parts took for a request that was not admitted by them.
void SplitAsk::undo(const std::optional<SharedAsk::OwnDecision>& own) noexcept {
  std::array<Finding, store::kMaxCounters> told;
  // Whoever left and was admitted by itself may stand for what was charged late.
  const bool stands = own && own->verdict.verdict == Verdict::allowed;
  const std::uint64_t late = stands ? 0 : give_back_late();
  for (const auto& part : parts_) {
    if (!part->answered || part->looks || part->verdict.verdict != Verdict::allowed) continue;
    // Whoever has the slot now is perhaps another one.
    ShardDriver& shard = *part->asked_of;
    const std::span<const Finding> found = part->findings();
    if (part->verdict.rung == Rung::share) {
      shard.unspend(part->request, found, gather(late, part->places));
    } else if (part->verdict.rung == Rung::journal) {
      LadderVerdict served = part->verdict;
      served.charged_late = gather(late, part->places);
      (void)shard.not_recorded(part->request, part->findings(), served);
    } else if (part->verdict.rung == Rung::store && own) {
      for (std::size_t i = 0; i < part->places.size(); ++i) {
        told[i] = own->findings[part->places[i]];
      }
      shard.take_back(*part, part->counters, found,
                      SharedAsk::OwnDecision{own->verdict, {told.data(), part->places.size()}});
    } else if (part->verdict.rung == Rung::store || part->verdict.rung == Rung::fallback) {
      shard.give_back(*part, part->counters, found);
    }
  }
}

void SplitAsk::finish() noexcept {
  const LadderVerdict verdict = join();
  const auto own = whole_.decided_by_itself();
  const bool allowed = verdict.verdict == Verdict::allowed;
  if (own || !allowed) undo(own);
  collect(allowed);
  Instant now{};
  for (const auto& part : parts_) now = std::max(now, part->now);
  whole_.decided(verdict, now);
}

namespace {

// Some of a request's counters, in one slot.
struct SlotPart {
  std::vector<Counter> counters;
  std::vector<std::size_t> places;
  std::vector<Finding> found;
  LadderVerdict verdict;
  ShardDriver* at = nullptr;  // a slot's owner may change meanwhile
  std::uint16_t slot = 0;
};

std::vector<SlotPart> parts_by_slot(const LadderRequest& request,
                                    std::span<const std::uint16_t> slots, SlotOwners& owners,
                                    std::uint64_t without) {
  std::vector<SlotPart> parts;
  for (std::size_t i = 0; i < request.counters.size(); ++i) {
    if ((without & bit(i)) != 0) continue;
    auto part = std::find_if(parts.begin(), parts.end(),
                             [&](const SlotPart& p) { return p.slot == slots[i]; });
    if (part == parts.end())
      part = parts.insert(parts.end(), SlotPart{.at = &owners.owner(slots[i]), .slot = slots[i]});
    part->counters.push_back(request.counters[i]);
    part->places.push_back(i);
  }
  for (SlotPart& part : parts) part.found.resize(part.counters.size());
  return parts;
}

}  // namespace

LadderVerdict split_without(const LadderRequest& request, std::span<const std::uint16_t> slots,
                            SlotOwners& owners, std::span<Finding> findings) noexcept {
  JoinedVerdict joined;
  std::vector<SlotPart> parts = parts_by_slot(request, slots, owners, 0);
  std::uint64_t overspent = 0;
  bool spent = false;
  for (SlotPart& part : parts) {
    part.verdict = part.at->without(part_of(request, part.counters, part.places), part.found);
    joined.add(part.verdict);
    overspent |= spread(part.verdict.overspent, part.places);
    spent |= spent_here(part.verdict);
  }
  LadderVerdict verdict = joined.verdict();
  if (verdict.verdict == Verdict::allowed) {
    const Instant now = parts.front().at->moment().store;
    (void)ladder::ShardLadder::under_ceiling(request, now, verdict);
  }
  const bool allowed = verdict.verdict == Verdict::allowed;
  verdict.overspent = allowed ? overspent : 0;
  verdict.record = spent && to_record(request, verdict);
  for (SlotPart& part : parts) {
    const LadderRequest of_part = part_of(request, part.counters, part.places);
    if (!allowed && spent_here(part.verdict)) {
      if (part.verdict.rung == Rung::share) {
        part.at->unspend(of_part, part.found);
      } else {
        (void)part.at->not_recorded(of_part, part.found, part.verdict);
      }
    }
    for (std::size_t i = 0; i < part.places.size(); ++i) {
      Finding& into = findings[part.places[i]];
      into = part.verdict.numbers_known ? part.found[i] : undecided(part.counters[i]);
      if (!allowed) not_charged(part.counters[i], into);
    }
  }
  if (verdict.verdict == Verdict::refused) verdict.numbers_known = false;
  return verdict;
}

LadderVerdict split_not_recorded(const LadderRequest& request, std::span<const std::uint16_t> slots,
                                 SlotOwners& owners, std::span<Finding> findings,
                                 const LadderVerdict& served) noexcept {
  JoinedVerdict joined;
  joined.add({.rung = Rung::journal, .retry_after = {}});
  for (SlotPart& part :
       parts_by_slot(request, slots, owners, served.by_store | served.by_fallback)) {
    for (std::size_t i = 0; i < part.places.size(); ++i) part.found[i] = findings[part.places[i]];
    LadderVerdict of_part = served;
    of_part.overspent = gather(served.overspent, part.places);
    of_part.charged_late = gather(served.charged_late, part.places);
    joined.add(
        part.at->not_recorded(part_of(request, part.counters, part.places), part.found, of_part));
  }
  LadderVerdict verdict = joined.verdict();
  if (verdict.verdict == Verdict::refused) verdict.numbers_known = false;
  return verdict;
}

}  // namespace weir::guard
