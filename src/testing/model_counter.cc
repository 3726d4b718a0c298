#include "testing/model_counter.h"

#include <algorithm>

namespace weir::testing {
namespace {

using limit::Numbers;
using limit::Outcome;
using limit::Step;
using limit::Window;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kDay = 86'400 * kSecond;
constexpr std::int64_t kLast = std::int64_t{1} << 62;
constexpr std::int64_t kBackstep = kSecond;

bool leap(int year) {
  return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

int days_in(int year, int month) {
  static constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return month == 2 && leap(year) ? 29 : kDays[month - 1];
}

// Month by month from January 1970; a new window wherever `count` months are full.
Window walk_months(std::int64_t now_ns, std::uint32_t count) {
  int year = 1970;
  int month = 1;
  Window window{0, 0};
  for (;;) {
    for (std::uint32_t i = 0; i < count; ++i) {
      window.end_ns += days_in(year, month) * kDay;
      if (++month > 12) {
        month = 1;
        ++year;
      }
    }
    if (now_ns < window.end_ns) return window;
    window.start_ns = window.end_ns;
  }
}

// The smallest wait for which `holds` is true; it must stay so once it is.
template <class Holds>
std::int64_t first_wait(Holds holds) {
  if (holds(0)) return 0;
  std::int64_t not_yet = 0;
  std::int64_t then = 1;
  while (!holds(then)) {
    not_yet = then;
    then *= 2;
  }
  while (then - not_yet > 1) {
    const std::int64_t middle = not_yet + (then - not_yet) / 2;
    (holds(middle) ? then : not_yet) = middle;
  }
  return then;
}

}  // namespace

Window model_window(const Numbers& numbers, std::int64_t now_ns) {
  const std::int64_t count = numbers.calendar_count;
  switch (numbers.calendar) {
    case limit::Calendar::month:
      return walk_months(now_ns, numbers.calendar_count);
    case limit::Calendar::year:
      return walk_months(now_ns, 12 * numbers.calendar_count);
    case limit::Calendar::none:
    case limit::Calendar::day:
    case limit::Calendar::week:
      break;
  }
  std::int64_t length = numbers.period_ns;
  std::int64_t shift = 0;
  if (numbers.calendar == limit::Calendar::day) length = count * kDay;
  if (numbers.calendar == limit::Calendar::week) {
    length = count * 7 * kDay;
    shift = 3 * kDay;  // 1969-12-29 was a Monday
  }
  const std::int64_t into = (now_ns + shift) % length;
  return {now_ns - into, now_ns - into + length};
}

std::int64_t ModelCounter::reached(Instant now) {
  const std::int64_t ns = now.time_since_epoch().count();
  if (ns < 0) return 0;
  return ns > kLast ? kLast : ns;
}

// A log remembers the instant of its last change, a window only its own start; a bucket nothing.
std::int64_t ModelCounter::believed(std::int64_t now_ns) const {
  if (numbers_.algorithm == Algorithm::gcra) return now_ns;
  const bool log = numbers_.algorithm == Algorithm::sliding_log;
  const std::int64_t known = log ? written_ns_ : model_window(numbers_, written_ns_).start_ns;
  return std::max(known, now_ns);
}

// What the bucket holds: every unit is `interval` of content, and one nanosecond of it drips away
// each nanosecond. Looked at from before its last change, it held more.
SignedWide ModelCounter::content_at(std::int64_t now_ns) const {
  SignedWide content = 0;
  std::int64_t at = 0;
  for (const Drop& drop : drops_) {
    content = std::max<SignedWide>(content - (drop.time_ns - at), 0) + drop.content;
    at = drop.time_ns;
  }
  return std::max<SignedWide>(content - (now_ns - at), 0);
}

std::uint64_t ModelCounter::units_in(std::int64_t start_ns, std::int64_t end_ns) const {
  std::uint64_t units = 0;
  for (const Charge& charge : charges_) {
    if (charge.time_ns >= start_ns && charge.time_ns < end_ns) units += charge.units;
  }
  return units;
}

bool ModelCounter::uses_nothing(std::int64_t now_ns) const {
  const std::int64_t at = believed(now_ns);
  switch (numbers_.algorithm) {
    case Algorithm::gcra:
      return content_at(at) == 0;
    case Algorithm::fixed_window: {
      const Window window = model_window(numbers_, at);
      return units_in(window.start_ns, window.end_ns) == 0;
    }
    case Algorithm::sliding_window: {
      const Window window = model_window(numbers_, at);
      return units_in(window.start_ns - numbers_.period_ns, window.end_ns) == 0;
    }
    case Algorithm::sliding_log:
      return units_in(at - numbers_.period_ns + 1, at + 1) == 0;
  }
  return false;
}

bool ModelCounter::fits(std::int64_t now_ns, std::uint64_t units) const {
  if (units > numbers_.burst) return false;
  const std::int64_t at = believed(now_ns);
  const SignedWide limit = numbers_.limit;
  switch (numbers_.algorithm) {
    case Algorithm::gcra: {
      const SignedWide interval = numbers_.interval_ns;
      return content_at(at) + interval * units <= interval * numbers_.burst;
    }
    case Algorithm::fixed_window: {
      const Window window = model_window(numbers_, at);
      return units_in(window.start_ns, window.end_ns) + units <= numbers_.limit;
    }
    case Algorithm::sliding_window: {
      const Window window = model_window(numbers_, at);
      const SignedWide length = numbers_.period_ns;
      const SignedWide before = units_in(window.start_ns - numbers_.period_ns, window.start_ns);
      const SignedWide used = units_in(window.start_ns, window.end_ns);
      return before * (window.end_ns - at) + (used + units) * length <= limit * length;
    }
    case Algorithm::sliding_log:
      return units_in(at - numbers_.period_ns + 1, at + 1) + units <= numbers_.limit;
  }
  return false;
}

std::uint64_t ModelCounter::most_that_fits(std::int64_t now_ns) const {
  if (!fits(now_ns, 1)) return 0;
  std::uint64_t good = 1;
  std::uint64_t bad = std::uint64_t{numbers_.burst} + 1;
  while (bad - good > 1) {
    const std::uint64_t middle = good + (bad - good) / 2;
    (fits(now_ns, middle) ? good : bad) = middle;
  }
  return good;
}

std::int64_t ModelCounter::wait_until_fits(std::int64_t now_ns, std::uint64_t units) const {
  return first_wait([&](std::int64_t wait) { return fits(now_ns + wait, units); });
}

std::int64_t ModelCounter::wait_until_fresh(std::int64_t now_ns) const {
  return first_wait([&](std::int64_t wait) { return uses_nothing(now_ns + wait); });
}

bool ModelCounter::clock_was_set_back(std::int64_t now_ns) const {
  if (numbers_.algorithm == Algorithm::gcra) {
    const SignedWide most = SignedWide{numbers_.interval_ns} * numbers_.burst;
    return content_at(now_ns) > most + kBackstep;
  }
  return believed(now_ns) - now_ns > kBackstep;
}

// The clock was set back: what was used stays used, as of now.
void ModelCounter::follow_clock(std::int64_t now_ns) {
  if (numbers_.algorithm == Algorithm::gcra) {
    drops_.assign(1, {now_ns, SignedWide{numbers_.interval_ns} * numbers_.burst});
    return;
  }
  if (numbers_.algorithm == Algorithm::sliding_log) {
    // What was over by the time of the last change is forgotten, whatever the clock says now.
    const std::int64_t forgotten = written_ns_ - numbers_.period_ns;
    std::erase_if(charges_, [&](const Charge& charge) { return charge.time_ns <= forgotten; });
    for (Charge& charge : charges_) charge.time_ns = std::min(charge.time_ns, now_ns);
  } else {
    const Window then = model_window(numbers_, written_ns_);
    const Window here = model_window(numbers_, now_ns);
    std::vector<Charge> carried;
    carried.push_back({here.start_ns, units_in(then.start_ns, then.end_ns)});
    carried.push_back({here.start_ns - numbers_.period_ns,
                       units_in(then.start_ns - numbers_.period_ns, then.start_ns)});
    charges_ = carried;
  }
  written_ns_ = now_ns;
}

// Returns the receipt: the end of the charge for gcra, its window's start, or its instant in a log.
std::int64_t ModelCounter::charge(std::int64_t now_ns, std::uint64_t units) {
  const std::int64_t at = believed(now_ns);
  charged_ += units;
  if (numbers_.algorithm == Algorithm::gcra) {
    drops_.push_back({at, SignedWide{numbers_.interval_ns} * units});
    return at + static_cast<std::int64_t>(content_at(at));
  }
  charges_.push_back({at, units});
  written_ns_ = at;
  const bool log = numbers_.algorithm == Algorithm::sliding_log;
  return log ? at : model_window(numbers_, at).start_ns;
}

Step ModelCounter::report(std::int64_t now_ns, Outcome outcome, std::uint64_t ask) const {
  Step step;
  step.outcome = outcome;
  step.remaining = static_cast<std::uint32_t>(most_that_fits(now_ns));
  step.reset_after_ns = numbers_.limit == 0 ? 0 : wait_until_fresh(now_ns);
  if (outcome == Outcome::limited) step.retry_after_ns = wait_until_fits(now_ns, ask);
  return step;
}

Step ModelCounter::take(Instant now, std::uint64_t cost) {
  const std::int64_t now_ns = reached(now);
  ModelCounter seen = *this;
  if (clock_was_set_back(now_ns)) seen.follow_clock(now_ns);
  const std::uint64_t ask = cost == 0 ? 1 : cost;
  const bool allowed = seen.fits(now_ns, ask);
  std::int64_t receipt = 0;
  if (allowed && cost > 0) receipt = seen.charge(now_ns, cost);
  const Outcome outcome = allowed                ? Outcome::allowed
                          : ask > numbers_.burst ? Outcome::never_fits
                                                 : Outcome::limited;
  Step step = seen.report(now_ns, outcome, ask);
  step.next.time_ns = receipt;
  if (cost > 0) *this = seen;
  return step;
}

Step ModelCounter::drain(Instant now, std::uint64_t cost) {
  const std::int64_t now_ns = reached(now);
  ModelCounter seen = *this;
  if (clock_was_set_back(now_ns)) seen.follow_clock(now_ns);
  const std::uint64_t left = seen.most_that_fits(now_ns);
  if (cost <= left || left == 0) return take(now, cost);
  const std::int64_t receipt = seen.charge(now_ns, left);
  *this = seen;
  Step step = report(now_ns, cost > numbers_.burst ? Outcome::never_fits : Outcome::limited, cost);
  step.next.time_ns = receipt;
  return step;
}

Step ModelCounter::refund(Instant now, std::uint64_t cost, Instant receipt) {
  const std::int64_t now_ns = reached(now);
  ModelCounter seen = *this;
  const bool set_back = clock_was_set_back(now_ns);
  if (set_back) seen.follow_clock(now_ns);
  bool changed = false;
  if (numbers_.algorithm == Algorithm::gcra) {
    changed = seen.drop_back(now_ns, cost, reached(receipt));
  } else if (numbers_.algorithm != Algorithm::sliding_log || !set_back) {
    changed = seen.uncharge(now_ns, cost, reached(receipt));
  }  // a log whose clock was set back no longer knows the instants of its charges
  if (changed) *this = seen;
  return seen.report(now_ns, Outcome::allowed, 0);
}

// The bucket gets back what it was charged, as far as it has not dripped away since.
bool ModelCounter::drop_back(std::int64_t now_ns, std::uint64_t cost, std::int64_t receipt_ns) {
  const SignedWide standing = std::max<std::int64_t>(receipt_ns - now_ns, 0);
  const SignedWide charged =
      SignedWide{numbers_.interval_ns} * std::min<std::uint64_t>(cost, numbers_.burst);
  const SignedWide back = std::min({standing, charged, content_at(now_ns)});
  if (back > 0) drops_.push_back({now_ns, -back});
  return back > 0;
}

// Charges that the receipt may mean are those of its window, or for a log of its very instant; and
// they must still count.
bool ModelCounter::uncharge(std::int64_t now_ns, std::uint64_t cost, std::int64_t receipt_ns) {
  const std::int64_t at = believed(now_ns);
  Window meant = model_window(numbers_, receipt_ns);
  Window counted = model_window(numbers_, at);
  if (numbers_.algorithm == Algorithm::sliding_log) {
    meant = {receipt_ns, receipt_ns + 1};
    counted = {at - numbers_.period_ns + 1, at + 1};
  } else if (numbers_.algorithm == Algorithm::sliding_window) {
    counted.start_ns -= numbers_.period_ns;
  }
  std::uint64_t back = cost;
  for (Charge& charge : charges_) {
    if (charge.time_ns < std::max(meant.start_ns, counted.start_ns)) continue;
    if (charge.time_ns >= std::min(meant.end_ns, counted.end_ns)) continue;
    const std::uint64_t taken = std::min(back, charge.units);
    charge.units -= taken;
    back -= taken;
  }
  if (back == cost) return false;
  written_ns_ = at;
  return true;
}

void ModelCounter::convert(const Numbers& to, Instant now) {
  const Numbers from = numbers_;
  numbers_ = to;
  const bool kept = from.algorithm == to.algorithm && from.period_ns == to.period_ns &&
                    from.calendar == to.calendar && from.calendar_count == to.calendar_count;
  if (!kept) {
    *this = ModelCounter(to);
    return;
  }
  if (from.algorithm != Algorithm::gcra) return;
  const std::int64_t now_ns = reached(now);
  ModelCounter before = *this;
  before.numbers_ = from;
  if (before.clock_was_set_back(now_ns)) before.follow_clock(now_ns);
  const SignedWide content = before.content_at(now_ns);
  drops_.clear();
  if (from.limit == 0 || to.limit == 0 || content == 0) return;
  // As many units, and as much of the next one, as before: the first content that is no less.
  const SignedWide exact = content * to.interval_ns;
  SignedWide scaled = exact / from.interval_ns;
  while (scaled * from.interval_ns < exact) ++scaled;
  const SignedWide most = SignedWide{to.interval_ns} * to.burst;
  drops_.push_back({now_ns, std::min(scaled, most)});
}

bool ModelCounter::fresh(Instant now) const {
  return uses_nothing(reached(now));
}

}  // namespace weir::testing
