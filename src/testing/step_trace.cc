#include "testing/step_trace.h"

#include <ostream>
#include <sstream>

namespace weir::testing {
namespace {

using limit::Outcome;
using limit::Step;

std::string_view name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::allowed:
      return "allowed";
    case Outcome::limited:
      return "limited";
    case Outcome::never_fits:
      return "never_fits";
  }
  return "?";
}

std::string text_of(const Step& step) {
  std::ostringstream out;
  out << name_of(step.outcome) << ", remaining " << step.remaining << ", retry_after_ns "
      << step.retry_after_ns << ", reset_after_ns " << step.reset_after_ns;
  return out.str();
}

bool same_answer(const Step& a, const Step& b) {
  return a.outcome == b.outcome && a.remaining == b.remaining &&
         a.retry_after_ns == b.retry_after_ns && a.reset_after_ns == b.reset_after_ns;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Act& act) {
  static constexpr std::string_view kNames[] = {"take", "drain", "refund", "change to"};
  out << (act.advance_ns < 0 ? "" : "+") << act.advance_ns
      << " ns: " << kNames[static_cast<int>(act.kind)] << ' ' << act.units;
  if (act.kind == Act::Kind::refund) out << " of charge -" << act.receipt;
  return out;
}

Step SideBySide::real_step(const Act& act, Instant receipt) {
  switch (act.kind) {
    case Act::Kind::take:
      return log() ? log_take(numbers_, log_, now_, act.units)
                   : take(numbers_, state_, now_, act.units);
    case Act::Kind::drain:
      return log() ? log_drain(numbers_, log_, now_, act.units)
                   : drain(numbers_, state_, now_, act.units);
    case Act::Kind::refund:
      return log() ? log_refund(numbers_, log_, now_, act.units, receipt)
                   : refund(numbers_, state_, now_, act.units, receipt);
    case Act::Kind::change:
      break;
  }
  return log() ? log_peek(numbers_, log_, now_, 0) : take(numbers_, state_, now_, 0);
}

Step SideBySide::model_step(const Act& act, Instant receipt) {
  switch (act.kind) {
    case Act::Kind::take:
      return model_.take(now_, act.units);
    case Act::Kind::drain:
      return model_.drain(now_, act.units);
    case Act::Kind::refund:
      return model_.refund(now_, act.units, receipt);
    case Act::Kind::change:
      break;
  }
  return model_.take(now_, 0);
}

// Where the new limit cannot be held, nothing changes.
void SideBySide::change(std::uint64_t limit) {
  limit::Request request;
  request.algorithm = numbers_.algorithm;
  request.limit = limit;
  request.period = {Nanos(numbers_.period_ns), numbers_.calendar, numbers_.calendar_count};
  const Result<limit::Numbers> to = limit::Numbers::make(request);
  if (!to) return;
  if (!log()) state_ = convert(numbers_, *to, state_, now_);
  model_.convert(*to, now_);
  numbers_ = *to;
}

std::optional<std::string> SideBySide::act(const Act& act) {
  now_ += Nanos(act.advance_ns);
  if (act.kind == Act::Kind::change) change(act.units);
  const Instant receipt =
      act.receipt < receipts_.size() ? receipts_[receipts_.size() - 1 - act.receipt] : now_;
  const std::uint64_t charged_before = model_.charged();
  const Step real = real_step(act, receipt);
  const Step model = model_step(act, receipt);
  if (!log()) state_ = real.next;
  std::string difference;
  if (!same_answer(real, model)) {
    difference = "real:  " + text_of(real) + "\nmodel: " + text_of(model);
  }
  if (model_.charged() > charged_before) {
    if (real.receipt() != model.receipt()) difference += "\nthe receipts differ";
    receipts_.push_back(real.receipt());
  }
  if (difference.empty()) return std::nullopt;
  return difference;
}

std::optional<std::string> first_difference(SideBySide both, const std::vector<Act>& acts) {
  std::ostringstream before;
  for (const Act& act : acts) {
    before << act << '\n';
    if (auto difference = both.act(act)) return before.str() + *difference;
  }
  return std::nullopt;
}

}  // namespace weir::testing
