#include "store/custom_store.h"

#include <algorithm>
#include <array>

namespace weir::store {
namespace {

constexpr std::uint64_t kMostNanos = std::uint64_t{1} << 62;

Finding finding_of(const Counter& counter, const CounterAnswer& answer) {
  Finding finding;
  finding.op = counter.op;
  finding.remaining_known = answer.remaining.has_value();
  finding.retry_known = answer.retry_after.has_value();
  finding.reset_known = false;
  finding.step.remaining =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(answer.remaining.value_or(0), kMaxUnits));
  if (answer.fits) {
    finding.step.outcome = limit::Outcome::allowed;
  } else if (counter.cost > counter.numbers->burst) {
    finding.step.outcome = limit::Outcome::never_fits;
  } else {
    finding.step.outcome = limit::Outcome::limited;
    const auto wait = answer.retry_after.value_or(Nanos(0)).count();
    finding.step.retry_after_ns = static_cast<std::int64_t>(
        std::clamp<std::int64_t>(wait, 0, static_cast<std::int64_t>(kMostNanos)));
  }
  return finding;
}

class Constant final : public Store {
 public:
  explicit Constant(bool fits) : fits_(fits) {}
  bool decide(std::span<const CounterRequest> counters, Instant,
              std::span<CounterAnswer> answers) noexcept override {
    for (std::size_t i = 0; i < counters.size(); ++i)
      answers[i] = {.fits = fits_, .remaining = {}, .retry_after = {}};
    return true;
  }

 private:
  bool fits_;
};

}  // namespace

LocalAnswer CustomStore::decide(std::span<const Counter> counters, Instant now,
                                std::span<Finding> findings) noexcept {
  std::array<CounterRequest, kMaxCounters> requests;
  std::array<CounterAnswer, kMaxCounters> answers;
  for (std::size_t i = 0; i < counters.size(); ++i) {
    const Counter& counter = counters[i];
    if (counter.op != Op::take) return {.outcome = LocalOutcome::unavailable};
    requests[i] = {.rule = counter.rule,
                   .key = counter.key,
                   .algorithm = counter.numbers->algorithm,
                   .limit = counter.numbers->limit,
                   .burst = counter.numbers->burst,
                   .period = Nanos(counter.numbers->period_ns),
                   .cost = counter.cost};
  }
  if (!store_->decide({requests.data(), counters.size()}, now, {answers.data(), counters.size()})) {
    return {.outcome = LocalOutcome::unavailable};
  }
  bool allowed = true;
  for (std::size_t i = 0; i < counters.size(); ++i) {
    findings[i] = finding_of(counters[i], answers[i]);
    allowed = allowed && (answers[i].fits || counters[i].shadow);
  }
  for (std::size_t i = 0; i < counters.size(); ++i)
    findings[i].charged = allowed && answers[i].fits && counters[i].cost > 0;
  return {.allowed = allowed};
}

}  // namespace weir::store

namespace weir {

std::unique_ptr<Store> Store::allow_all() {
  return std::make_unique<store::Constant>(true);
}
std::unique_ptr<Store> Store::deny_all() {
  return std::make_unique<store::Constant>(false);
}

}  // namespace weir
