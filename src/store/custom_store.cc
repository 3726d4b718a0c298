#include "store/custom_store.h"

#include <algorithm>
#include <array>

namespace weir::store {
namespace {

CounterRequest request_of(const Counter& counter, std::uint64_t cost) {
  const limit::Numbers& numbers = *counter.numbers;
  return {.rule = counter.rule,
          .key = counter.key,
          .algorithm = numbers.algorithm,
          .limit = numbers.limit,
          .burst = numbers.burst,
          .period = Nanos(numbers.period_ns),
          .cost = cost};
}

bool may_deny(const Counter& counter) {
  return counter.op == Op::take && !counter.shadow;
}

// What the store said of a counter, as a finding. Numbers it left out are not known, and of those
// it gave none is believed beyond what the rule can mean.
Finding finding_of(const Counter& counter, const CounterAnswer& said) {
  const limit::Numbers& numbers = *counter.numbers;
  Finding finding;
  finding.op = counter.op;
  finding.step.outcome = said.fits                      ? limit::Outcome::allowed
                         : counter.cost > numbers.burst ? limit::Outcome::never_fits
                                                        : limit::Outcome::limited;
  finding.remaining_known = said.remaining.has_value();
  finding.step.remaining = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(said.remaining.value_or(0), numbers.burst));
  const bool waits = finding.step.outcome == limit::Outcome::limited;
  finding.retry_known = !waits || said.retry_after.has_value();
  if (waits) {
    finding.step.retry_after_ns = std::max(said.retry_after.value_or(Nanos(0)), Nanos(0)).count();
  }
  finding.reset_known = false;
  return finding;
}

// Of a counter the store was not asked about, or could not answer for.
Finding nothing_known(const Counter& counter) {
  Finding finding;
  finding.op = counter.op;
  finding.step.outcome = limit::Outcome::allowed;
  finding.remaining_known = finding.retry_known = finding.reset_known = false;
  return finding;
}

}  // namespace

LocalAnswer CustomStore::decide(std::span<const Counter> counters, Instant now,
                                std::span<Finding> findings) noexcept {
  std::array<CounterRequest, kMaxCounters> requests;
  std::array<CounterAnswer, kMaxCounters> answers;
  std::size_t asked = 0;
  for (const Counter& counter : counters) {
    if (may_deny(counter)) requests[asked++] = request_of(counter, counter.cost);
  }
  if (asked > 0 && !store_->decide({requests.data(), asked}, now, {answers.data(), asked})) {
    return {LocalOutcome::unavailable, false};
  }
  const bool allowed =
      std::all_of(answers.begin(), answers.begin() + asked, [](const auto& a) { return a.fits; });

  std::size_t next = 0;
  for (std::size_t i = 0; i < counters.size(); ++i) {
    const Counter& counter = counters[i];
    if (may_deny(counter)) {
      findings[i] = finding_of(counter, answers[next++]);
    } else {
      findings[i] = ask_aside(counter, now, allowed);
      continue;
    }
    findings[i].charged = allowed && counter.cost > 0;
    findings[i].units = findings[i].charged ? counter.cost : 0;
  }
  return {LocalOutcome::decided, allowed};
}

// Asks about a counter that denies nothing. Where the ask as a whole is denied, it is asked for
// what there is, and charged nothing.
Finding CustomStore::ask_aside(const Counter& counter, Instant now, bool charge) noexcept {
  if (counter.op == Op::refund || counter.op == Op::reset) return nothing_known(counter);
  const CounterRequest request = request_of(counter, charge ? counter.cost : 0);
  CounterAnswer said;
  if (!store_->decide({&request, 1}, now, {&said, 1})) return nothing_known(counter);
  Finding finding = finding_of(counter, said);
  finding.charged = charge && said.fits && counter.cost > 0;
  finding.units = finding.charged ? counter.cost : 0;
  return finding;
}

}  // namespace weir::store

namespace weir {
namespace {

// Answers every counter alike.
class SameAnswer final : public Store {
 public:
  explicit SameAnswer(bool fits) : fits_(fits) {}
  bool decide(std::span<const CounterRequest> counters, Instant,
              std::span<CounterAnswer> answers) noexcept override {
    for (std::size_t i = 0; i < counters.size(); ++i) answers[i] = {.fits = fits_};
    return true;
  }

 private:
  const bool fits_;
};

}  // namespace

std::unique_ptr<Store> Store::allow_all() {
  return std::make_unique<SameAnswer>(true);
}
std::unique_ptr<Store> Store::deny_all() {
  return std::make_unique<SameAnswer>(false);
}

}  // namespace weir
