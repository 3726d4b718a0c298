#include "guard/give_backs.h"

namespace weir::guard {

namespace redis = store::redis;

void GiveBacks::give_back(std::span<const Charge> charges, const Under& under) {
  if (free_.empty()) {
    errands_.push_back(std::make_unique<Errand>());
    free_.push_back(errands_.size() - 1);
  }
  const std::uint64_t place = free_.back();
  free_.pop_back();
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
  const MonoTime until = clock_.mono() + patience_;
  // No generation of the breaker's: whatever becomes of it says nothing new of the store.
  client_.ask(errand.counters,
              {.answer_by = until,
               .vote_by = until,
               .loaded_at = under.loaded_at,
               .generation = 0,
               .now = under.now,
               .not_after = {},
               .owed = {},
               .known = {},
               .asking = under.asking},
              *this, kTokens | place);
}

void GiveBacks::on_answer(std::uint64_t token, const redis::Answer& answer) {
  if (answer.decided()) {
    listener_.on_given_back(errands_[token & ~kTokens]->counters, answer);
    done(token, true);
  } else if (!answer.reply_may_follow) {
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
  free_.push_back(token & ~kTokens);
}

}  // namespace weir::guard
