#include <algorithm>
#include <charconv>

#include "limit/reach.h"
#include "store/redis/ask_codec.h"
#include "store/redis/byte_codec.h"

namespace weir::store::redis {
namespace {

using limit::Numbers;
using limit::Outcome;
using limit::Step;

enum ReportFlag : unsigned {
  kFits = 1,
  kCharged = 2,
  kRepaired = 4,
  kNewerNumbers = 8,
  kConverted = 16,
  kOverBound = 32,
};

// What stands before the time in a value, and how long the value is: docs/internals/redis-keys.md.
constexpr std::size_t kGcraHeadBytes = 24;
constexpr std::size_t kGcraBytes = 33;
constexpr std::size_t kFixedHeadBytes = 11;
constexpr std::size_t kFixedBytes = 24;

enum Code : std::int64_t {
  kDenied = 0,
  kAllowed = 1,
  kLate = 2,
  kAstray = 3,
  kPlainDenied = 4,
  kPlainAllowed = 5,
  kCounted = 6,
};

std::optional<std::int64_t> number_in(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// The first two elements of most replies: TIME.
std::optional<Instant> time_in(const Reply& reply) {
  if (reply.root().elements < 2) return std::nullopt;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    if (reply.at(i).type != ReplyType::string) return std::nullopt;
  }
  const auto seconds = number_in(reply.text(reply.at(0)));
  const auto micros = number_in(reply.text(reply.at(1)));
  if (!seconds || !micros || *micros >= 1'000'000 || *seconds >= std::int64_t{1} << 33) {
    return std::nullopt;
  }
  return Instant{Nanos{*seconds * kNanosInSecond + *micros * 1'000}};
}

// The numbers of another load, as the store keeps them. Absent: no such rule can be.
std::optional<Numbers> numbers_of(const Numbers& own, std::uint32_t limit, std::uint32_t burst) {
  limit::Request request;
  request.algorithm = own.algorithm;
  request.limit = limit;
  if (own.algorithm == Algorithm::gcra && limit != 0) request.burst = burst;
  request.period = {Nanos{own.period_ns}, own.calendar, own.calendar_count};
  Result<Numbers> made = Numbers::make(request);
  if (!made) return std::nullopt;
  return *std::move(made);
}

// ---- What a step means for the caller
// ---------------------------------------------------------------

// What is said of a counter, from its step if that was carried out and from its probes if not.
// `step` is the op carried out, peek(cost) what a charge of so much would be on the same state.
template <class Peek>
void fill_finding(const Counter& counter, bool carried_out, bool charged, const Step& step,
                  std::uint64_t units, Peek peek, Finding& finding) {
  finding = Finding{};
  finding.op = counter.op;
  const bool charges = counter.op == Op::take || counter.op == Op::drain;
  if (carried_out && (charged || !charges)) {
    finding.step = step;
    finding.charged = charged;
    finding.units = units;
    return;
  }
  finding.step = peek(charges ? counter.cost : 0);
  if (counter.cost == 0 || finding.step.outcome != Outcome::allowed) {
    if (!charges) {
      finding.step.outcome = Outcome::allowed;
      finding.step.retry_after_ns = 0;
    }
    return;
  }
  finding.step = peek(0);
  finding.step.outcome = Outcome::allowed;
  finding.step.retry_after_ns = 0;
}

Step carried_out_step(const Counter& counter, const Numbers& numbers, const limit::State& before,
                      Instant now) {
  switch (counter.op) {
    case Op::take:
      return limit::take(numbers, before, now, counter.cost);
    case Op::drain:
      return limit::drain(numbers, before, now, counter.cost);
    case Op::refund:
      return limit::refund(numbers, before, now, counter.cost, counter.receipt);
    case Op::reset:
      break;
  }
  return limit::take(numbers, limit::State{}, now, 0);
}

std::uint64_t units_of(const Counter& counter, const Numbers& numbers, const limit::State& before,
                       Instant now, const Step& step) {
  if (counter.op == Op::take) return counter.cost;
  if (counter.op != Op::drain) return 0;
  if (step.outcome == Outcome::allowed) return counter.cost;
  return limit::take(numbers, before, now, 0).remaining;
}

// Fills in the reply for a counter that is one State. Returns whether script and C++ agree.
bool explain_state(const Counter& counter, bool allowed, unsigned flags, Instant now,
                   CounterReply& reply) {
  const bool charged = (flags & kCharged) != 0;
  const Step step = carried_out_step(counter, reply.numbers, reply.before, now);
  const std::uint64_t units =
      charged ? units_of(counter, reply.numbers, reply.before, now, step) : 0;
  fill_finding(
      counter, allowed, charged, step, units,
      [&](std::uint64_t cost) { return limit::take(reply.numbers, reply.before, now, cost); },
      reply.finding);
  if (counter.op == Op::refund || counter.op == Op::reset) return true;
  const bool fits = step.outcome == Outcome::allowed;
  return fits == ((flags & kFits) != 0) && (units > 0) == charged;
}

// ---- Logs
// -----------------------------------------------------------------------------------------------

// A log as the script sums it up: it stays in the store.
struct LogSummary {
  const Numbers* numbers;
  std::uint64_t used;    // standing: before a take or drain, after a refund
  std::int64_t at_ns;    // the instant that counts
  std::int64_t last_ns;  // of the youngest standing entry; 0: none stands
  std::int64_t fit_ns;   // of the entry whose end makes room for the cost; 0: not asked for
  std::int64_t now_ns;

  std::uint32_t left() const {
    return used >= numbers->limit ? 0 : static_cast<std::uint32_t>(numbers->limit - used);
  }
  std::int64_t until_over(std::int64_t entry_ns) const {
    return std::min(entry_ns, at_ns) + numbers->period_ns - now_ns;
  }
  // As limit::log_peek().
  Step peek(std::uint64_t cost) const {
    const std::uint64_t ask = std::max<std::uint64_t>(cost, 1);
    Step step;
    step.next.time_ns = at_ns;
    step.remaining = left();
    step.reset_after_ns = last_ns == 0 || numbers->limit == 0 ? 0 : until_over(last_ns);
    if (ask > numbers->limit) {
      step.outcome = Outcome::never_fits;
    } else if (ask > step.remaining) {
      step.retry_after_ns = until_over(fit_ns);
    } else {
      step.outcome = Outcome::allowed;
      if (cost > 0) {
        step.remaining -= static_cast<std::uint32_t>(cost);
        step.reset_after_ns = at_ns + numbers->period_ns - now_ns;
      }
    }
    return step;
  }
};

bool explain_log(const Counter& counter, bool allowed, unsigned flags, const LogSummary& log,
                 CounterReply& reply) {
  const bool charged = (flags & kCharged) != 0;
  const bool fits = (flags & kFits) != 0;
  Step step = log.peek(counter.op == Op::take || counter.op == Op::drain ? counter.cost : 0);
  std::uint64_t units = charged ? counter.cost : 0;
  reply.log_used = log.used;
  if (counter.op == Op::refund) {
    step.outcome = Outcome::allowed;
    step.retry_after_ns = 0;
  } else if (counter.op == Op::reset) {
    step = Step{.outcome = log.numbers->limit == 0 ? Outcome::never_fits : Outcome::allowed,
                .remaining = log.numbers->limit};
    step.next.time_ns = log.at_ns;
    reply.log_used = 0;
  } else if (counter.op == Op::drain && charged && !fits) {
    units = log.left();
    step.remaining = 0;
    step.reset_after_ns = log.at_ns + log.numbers->period_ns - log.now_ns;
  }
  if (counter.op != Op::refund) reply.log_used += units;
  fill_finding(
      counter, allowed, charged, step, units, [&](std::uint64_t cost) { return log.peek(cost); },
      reply.finding);
  if (counter.op != Op::take) return true;
  return fits == (std::max<std::uint64_t>(counter.cost, 1) <= log.left()) &&
         charged == (fits && allowed && counter.cost > 0);
}

// ---- The two forms of reply
// ----------------------------------------------------------------------

bool decode_report(std::string_view bytes, const Counter& counter, bool allowed, Instant now,
                   CounterReply& reply, bool& disagreed) {
  ByteReader reader(bytes);
  const auto flags = static_cast<unsigned>(reader.uint(1));
  const std::uint32_t limit = reader.u32();
  const bool is_log = counter.numbers->algorithm == Algorithm::sliding_log;
  std::uint32_t burst = limit;
  LogSummary log{};
  if (is_log) {
    log.used = reader.uint(5);
    log.at_ns = reader.pair();
    log.last_ns = reader.pair();
    log.fit_ns = reader.pair();
    log.now_ns = limit::instant_ns(now);
  } else {
    burst = reader.u32();
    reply.before.time_ns = reader.pair();
    reply.before.current = reader.u32();
    reply.before.previous = reader.u32();
  }
  if (!reader.done()) return false;
  reply.repaired = (flags & kRepaired) != 0;
  reply.newer_numbers = (flags & kNewerNumbers) != 0;
  reply.converted = (flags & kConverted) != 0;
  reply.over_bound = (flags & kOverBound) != 0;
  reply.numbers = *counter.numbers;
  if (reply.newer_numbers) {
    const auto newer = numbers_of(*counter.numbers, limit, burst);
    if (!newer) return false;
    reply.numbers = *newer;
  }
  log.numbers = &reply.numbers;
  const bool agreed = is_log ? explain_log(counter, allowed, flags, log, reply)
                             : explain_state(counter, allowed, flags, now, reply);
  if (reply.newer_numbers) reply.finding.newer = {reply.numbers.limit, reply.numbers.burst};
  disagreed = disagreed || !agreed;
  return true;
}

DecodedAsk decode_full(const Reply& reply, std::span<const Counter> counters,
                       const AskOptions& options, Instant store_now,
                       std::vector<CounterReply>& replies) {
  DecodedAsk decoded;
  if (!reply.is_flat_array(counters.size() + 3)) return decoded;
  decoded.told_time = true;
  decoded.store_now = store_now;
  decoded.allowed = reply.at(2).integer == kAllowed;
  const Instant now = options.now.value_or(store_now);
  for (std::size_t i = 0; i < counters.size(); ++i) {
    const ReplyNode& node = reply.at(i + 3);
    if (node.type != ReplyType::string ||
        !decode_report(reply.text(node), counters[i], decoded.allowed, now, replies[i],
                       decoded.disagreed)) {
      return decoded;
    }
  }
  decoded.outcome = AskOutcome::decided;
  return decoded;
}

// A value as it stood at the key, under the counter's own numbers.
bool read_value(const Reply& reply, const ReplyNode& value, const Counter& counter,
                CounterReply& out) {
  out.numbers = *counter.numbers;
  out.before = {};
  if (value.type == ReplyType::nil) return true;
  if (value.type != ReplyType::string) return false;
  const std::string_view bytes = reply.text(value);
  const bool gcra = counter.numbers->algorithm == Algorithm::gcra;
  if (bytes.size() != (gcra ? kGcraBytes : kFixedBytes)) return false;
  ByteReader reader(bytes.substr(gcra ? kGcraHeadBytes : kFixedHeadBytes));
  out.before.time_ns = reader.pair();
  if (!gcra) out.before.current = reader.u32();
  return reader.done();
}

// The brief form's reply: the value that was found, and whether the cost was charged on top of it.
bool explain_brief(const Reply& reply, const ReplyNode& value, bool charged, const Counter& counter,
                   Instant now, CounterReply& out, bool& disagreed) {
  if (!read_value(reply, value, counter, out)) return false;
  disagreed = !explain_state(counter, charged, charged ? kFits | kCharged : 0U, now, out);
  return true;
}

// The plain form's: a value for each counter.
DecodedAsk decode_plain(const Reply& reply, std::span<const Counter> counters, Instant store_now,
                        std::vector<CounterReply>& replies) {
  DecodedAsk decoded;
  if (!reply.is_flat_array(counters.size() + 3)) return decoded;
  decoded.told_time = true;
  decoded.store_now = store_now;
  decoded.allowed = reply.at(2).integer == kPlainAllowed;
  bool all_fit = true;
  for (std::size_t i = 0; i < counters.size(); ++i) {
    if (!read_value(reply, reply.at(i + 3), counters[i], replies[i])) return decoded;
    const Step alone =
        limit::take(replies[i].numbers, replies[i].before, store_now, counters[i].cost);
    const bool fits = alone.outcome == Outcome::allowed;
    all_fit = all_fit && fits;
    const unsigned flags = (fits ? kFits : 0U) | (decoded.allowed ? kCharged : 0U);
    const bool agreed = explain_state(counters[i], decoded.allowed, flags, store_now, replies[i]);
    decoded.disagreed = decoded.disagreed || (decoded.allowed && !agreed);
  }
  decoded.disagreed = decoded.disagreed || all_fit != decoded.allowed;
  decoded.outcome = AskOutcome::decided;
  return decoded;
}

// What a count that holds this ask already says of it. Nothing of it is ever given back, so it does
// not show as charged.
void explain_count(const Counter& counter, std::int64_t count, Instant now, CounterReply& out) {
  const Numbers& numbers = *counter.numbers;
  const limit::Window window = limit::window_at(numbers, now);
  const std::int64_t until_over = window.end_ns - limit::instant_ns(now);
  const auto used = static_cast<std::uint64_t>(std::max<std::int64_t>(count, 0));
  out.numbers = numbers;
  out.before.time_ns = window.start_ns;
  out.before.current = static_cast<std::uint32_t>(std::min<std::uint64_t>(used, numbers.limit));
  out.finding = Finding{.op = counter.op};
  Step& step = out.finding.step;
  step.next = out.before;
  step.remaining = numbers.limit - out.before.current;
  step.reset_after_ns = until_over;
  if (used <= numbers.limit) {
    step.outcome = Outcome::allowed;
  } else if (counter.cost > numbers.limit) {
    step.outcome = Outcome::never_fits;
  } else {
    step.retry_after_ns = until_over;
  }
}

DecodedAsk decode_counts(const Reply& reply, std::span<const Counter> counters,
                         const AskOptions& options, Instant store_now,
                         std::vector<CounterReply>& replies) {
  DecodedAsk decoded;
  if (!reply.is_flat_array(counters.size() + 4) || reply.at(3).type != ReplyType::integer) {
    return decoded;
  }
  decoded.told_time = true;
  decoded.store_now = store_now;
  decoded.allowed = true;
  for (std::size_t i = 0; i < counters.size(); ++i) {
    const ReplyNode& node = reply.at(i + 4);
    if (node.type != ReplyType::integer) return decoded;
    explain_count(counters[i], node.integer, options.now.value_or(store_now), replies[i]);
    // Which of them it was is not told.
    replies[i].repaired = i == 0 && reply.at(3).integer > 0;
    const bool fits = replies[i].finding.step.outcome == Outcome::allowed;
    decoded.allowed = decoded.allowed && (fits || counters[i].shadow);
  }
  decoded.outcome = AskOutcome::decided;
  return decoded;
}

}  // namespace

DecodedAsk decode_ask(const Reply& reply, AskForm form, std::span<const Counter> counters,
                      const AskOptions& options, const AskTimes& times, Instant fallback,
                      std::vector<CounterReply>& replies) {
  DecodedAsk decoded;
  replies.assign(counters.size(), CounterReply{});
  const bool brief = form == AskForm::brief;
  if (brief && reply.root().type == ReplyType::string) {
    decoded.store_now = std::min(fallback, times.not_after);
    if (!explain_brief(reply, reply.root(), false, counters[0], decoded.store_now, replies[0],
                       decoded.disagreed)) {
      return decoded;
    }
    decoded.outcome = AskOutcome::decided;
    return decoded;
  }
  if (reply.root().type != ReplyType::array || reply.size() != reply.root().elements + 1 ||
      reply.root().elements < 3) {
    return decoded;
  }
  const auto store_now = time_in(reply);
  if (!store_now) return decoded;
  if (reply.at(2).type == ReplyType::integer) {
    const std::int64_t code = reply.at(2).integer;
    if (form != AskForm::envoyproxy && (code == kAllowed || code == kDenied)) {
      return decode_full(reply, counters, options, *store_now, replies);
    }
    if (form == AskForm::plain && (code == kPlainAllowed || code == kPlainDenied)) {
      return decode_plain(reply, counters, *store_now, replies);
    }
    if (form == AskForm::envoyproxy && code == kCounted) {
      return decode_counts(reply, counters, options, *store_now, replies);
    }
    if (reply.root().elements != 3 || (code != kLate && code != kAstray)) return decoded;
    decoded.outcome = code == kLate ? AskOutcome::late : AskOutcome::astray;
    decoded.told_time = true;
    decoded.store_now = *store_now;
    return decoded;
  }
  const bool charged = reply.root().elements == 4;
  if (!brief || reply.root().elements > 4) return decoded;
  if (charged && (reply.at(3).type != ReplyType::integer || reply.at(3).integer != 1)) {
    return decoded;
  }
  if (!charged && reply.at(2).type != ReplyType::string) return decoded;
  decoded.told_time = true;
  decoded.store_now = *store_now;
  decoded.allowed = charged;
  if (explain_brief(reply, reply.at(2), charged, counters[0], *store_now, replies[0],
                    decoded.disagreed)) {
    decoded.outcome = AskOutcome::decided;
  }
  return decoded;
}

}  // namespace weir::store::redis
