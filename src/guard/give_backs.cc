#include "guard/give_backs.h"

#include <algorithm>
#include <utility>

namespace weir::guard {

namespace redis = store::redis;

std::uint64_t GiveBacks::take_place() {
  if (free_.empty()) {
    errands_.push_back(std::make_unique<Errand>());
    free_.push_back(errands_.size() - 1);
  }
  const std::uint64_t place = free_.back();
  free_.pop_back();
  return place;
}

void GiveBacks::give_back(std::span<const Charge> charges, const Under& under) {
  const std::uint64_t place = take_place();
  Errand& errand = *errands_[place];
  errand.counters.clear();
  errand.numbers.clear();
  errand.keys.clear();
  for (const Charge& charge : charges) {
    errand.counters.push_back(charge.counter);
    errand.numbers.push_back(*charge.counter.numbers);
    errand.keys.emplace_back(charge.counter.key);
  }
  for (std::size_t i = 0; i < charges.size(); ++i) {
    store::Counter& counter = errand.counters[i];
    counter.numbers = &errand.numbers[i];
    counter.key = errand.keys[i];
    counter.rule = {};
    counter.op = store::Op::refund;
    counter.cost = charges[i].units;
    counter.receipt = charges[i].receipt;
  }
  errand.under = under;
  errand.until = clock_.mono() + kPatience;
  errand.again = {};
  errand.pause = kFirstPause;
  errand.redirects = 0;
  send(place);
}

void GiveBacks::send(std::uint64_t place) {
  if (!stopped_ && listener_.awaited() && waiting_.size() < kMostWaiting) {
    wait(place);
    listener_.on_pause();
  } else {
    ask(place);
  }
}

void GiveBacks::ask(std::uint64_t place) {
  const Errand& errand = *errands_[place];
  // No generation of the breaker's: whatever becomes of it says nothing new of the store.
  client_.ask(errand.counters,
              {.answer_by = errand.until,
               .vote_by = errand.until,
               .loaded_at = errand.under.loaded_at,
               .generation = 0,
               .now = errand.under.now,
               .not_after = {},
               .owed = {},
               .known = {},
               .asking = errand.under.asking},
              *this, kTokens | place);
}

void GiveBacks::wait(std::uint64_t place) {
  const Errand& errand = *errands_[place];
  waiting_.push_back(place);
  first_again_ = std::min(first_again_, errand.again);
  first_until_ = std::min(first_until_, errand.until);
}

void GiveBacks::go_on() {
  const MonoTime now = clock_.mono();
  const bool awaited = listener_.awaited();
  if (now < (awaited ? first_until_ : first_again_)) return;
  std::vector<std::uint64_t> due;
  first_again_ = first_until_ = MonoTime::max();
  std::erase_if(waiting_, [&](std::uint64_t place) {
    const Errand& errand = *errands_[place];
    const bool is_due = now >= (awaited ? errand.until : errand.again);
    if (is_due) {
      due.push_back(place);
    } else {
      first_again_ = std::min(first_again_, errand.again);
      first_until_ = std::min(first_until_, errand.until);
    }
    return is_due;
  });
  // Whose time is up is told so.
  for (const std::uint64_t place : due) ask(place);
}

std::optional<MonoTime> GiveBacks::next_event() const {
  if (waiting_.empty()) return std::nullopt;
  return listener_.awaited() ? first_until_ : first_again_;
}

void GiveBacks::stop() {
  stopped_ = true;
  for (const std::uint64_t place : std::exchange(waiting_, {})) done(place, false);
}

// Nothing was carried out: the one that was named is told.
bool GiveBacks::follow(std::uint64_t place, const redis::Answer& answer) {
  Errand& errand = *errands_[place];
  if (answer.error->error_class != redis::ErrorClass::redirected || clock_.mono() >= errand.until ||
      errand.redirects >= kMostRedirects) {
    return false;
  }
  GiveBacks* const to = listener_.elsewhere(answer.error_text, errand.under);
  if (to == nullptr) return false;
  ++errand.redirects;
  errand.again = {};
  const std::uint64_t there = to->take_place();
  std::swap(*to->errands_[there], errand);
  to->send(there);
  free_place(place);
  return true;
}

// Nothing was carried out, and there is time left.
bool GiveBacks::pause(std::uint64_t place, const redis::Answer& answer) {
  Errand& errand = *errands_[place];
  const MonoTime now = clock_.mono();
  if (answer.may_be_carried_out || now >= errand.until || stopped_ ||
      waiting_.size() >= kMostWaiting) {
    return false;
  }
  errand.redirects = 0;
  errand.again = std::min(now + errand.pause, errand.until);
  errand.pause = std::min(errand.pause * 2, kMostPause);
  wait(place);
  listener_.on_pause();
  if (under_way() == 0) listener_.on_none_under_way();
  return true;
}

void GiveBacks::on_answer(std::uint64_t token, const redis::Answer& answer) {
  const std::uint64_t place = token & ~kTokens;
  if (answer.decided()) {
    listener_.on_given_back(errands_[place]->counters, answer);
    done(token, true);
  } else if (!answer.reply_may_follow && !follow(place, answer) && !pause(place, answer)) {
    done(token, false);
  }
}

void GiveBacks::on_late(const redis::LateReply& late) {
  listener_.on_given_back(late.counters, late.answer);
  done(late.token, true);
}

void GiveBacks::on_lost(std::uint64_t token) {
  done(token, false);
}

void GiveBacks::done(std::uint64_t token, bool given_back) {
  counters_.count_give_back(given_back);
  free_place(token & ~kTokens);
}

void GiveBacks::free_place(std::uint64_t place) {
  free_.push_back(place);
  if (under_way() == 0) listener_.on_none_under_way();
}

}  // namespace weir::guard
