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
  return verdict.rung == Rung::share || verdict.rung == Rung::policy;
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

// The request of some of a request's counters. The ceiling is the whole's to take.
LadderRequest part_of(const LadderRequest& whole, std::span<const Counter> counters) {
  LadderRequest part = whole;
  part.counters = counters;
  part.ceiling = nullptr;
  return part;
}

}  // namespace

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
    part->request = part_of(whole.request, part->counters);
    part->where = whole.where;
    part->answer_by = whole.answer_by;
    part->loaded_at = whole.loaded_at;
  }
  waiting_ = parts_.size();
}

bool SplitAsk::begin() noexcept {
  busy_ = true;
  bool denied = false;
  for (const auto& part : parts_) {
    part->sent = owners_.owner(part->slot).begin(*part);
    denied |= part->answered && part->verdict.verdict != Verdict::allowed;
  }
  busy_ = false;
  // Where some part denies, what would have been asked is not any more.
  if (!denied && waiting_ > 0) return true;
  for (const auto& part : parts_) part->held.reset();
  finish();
  return false;
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
  busy_ = false;
  finish_if_decided();
}

void SplitAsk::part_decided() noexcept {
  --waiting_;
  if (!busy_) finish_if_decided();
}

void SplitAsk::finish_if_decided() noexcept {
  if (waiting_ > 0) return;
  finish();
  delete this;
}

LadderVerdict SplitAsk::join() noexcept {
  JoinedVerdict joined;
  bool brake = false;
  bool sent = false;
  for (const auto& part : parts_) {
    if (!part->answered) continue;
    joined.add(part->verdict);
    sent |= part->verdict.rung == Rung::store || part->verdict.was_sent;
    brake |= braked(part->verdict);
  }
  LadderVerdict verdict = joined.verdict();
  verdict.was_sent = sent && verdict.rung != Rung::store;
  if (verdict.verdict == Verdict::allowed && brake) {
    const Instant now = parts_.front()->asked_of->moment().store;
    (void)ladder::ShardLadder::under_ceiling(whole_.request, now, verdict);
  }
  if (verdict.verdict == Verdict::refused) verdict.numbers_known = false;
  return verdict;
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
    }
  }
}

// What the parts took for a request that was not admitted by them.
void SplitAsk::undo(const std::optional<SharedAsk::OwnDecision>& own) noexcept {
  std::array<Finding, store::kMaxCounters> told;
  for (const auto& part : parts_) {
    if (!part->answered || part->verdict.verdict != Verdict::allowed) continue;
    // Whoever has the slot now is perhaps another one.
    ShardDriver& shard = *part->asked_of;
    const std::span<const Finding> found = part->findings();
    if (part->verdict.rung == Rung::share) {
      shard.unspend(part->request, found);
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

LadderVerdict split_without(const LadderRequest& request, std::span<const std::uint16_t> slots,
                            SlotOwners& owners, std::span<Finding> findings) noexcept {
  JoinedVerdict joined;
  struct Part {
    std::vector<Counter> counters;
    std::vector<std::size_t> places;
    std::vector<Finding> found;
    LadderVerdict verdict;
    ShardDriver* at = nullptr;  // a slot's owner may change meanwhile
    std::uint16_t slot = 0;
  };
  std::vector<Part> parts;
  for (std::size_t i = 0; i < request.counters.size(); ++i) {
    auto part =
        std::find_if(parts.begin(), parts.end(), [&](const Part& p) { return p.slot == slots[i]; });
    if (part == parts.end())
      part = parts.insert(parts.end(), Part{.at = &owners.owner(slots[i]), .slot = slots[i]});
    part->counters.push_back(request.counters[i]);
    part->places.push_back(i);
  }
  for (Part& part : parts) {
    part.found.resize(part.counters.size());
    part.verdict = part.at->without(part_of(request, part.counters), part.found);
    joined.add(part.verdict);
  }
  LadderVerdict verdict = joined.verdict();
  if (verdict.verdict == Verdict::allowed) {
    const Instant now = parts.front().at->moment().store;
    (void)ladder::ShardLadder::under_ceiling(request, now, verdict);
  }
  const bool allowed = verdict.verdict == Verdict::allowed;
  for (Part& part : parts) {
    const bool spent = part.verdict.verdict == Verdict::allowed && part.verdict.rung == Rung::share;
    if (!allowed && spent) {
      part.at->unspend(part_of(request, part.counters), part.found);
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

}  // namespace weir::guard
