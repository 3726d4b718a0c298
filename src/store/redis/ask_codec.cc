#include "store/redis/ask_codec.h"

#include <algorithm>

#include "limit/reach.h"
#include "store/redis/byte_codec.h"
#include "store/redis/command_writer.h"
#include "store/redis/script.h"

namespace weir::store::redis {
namespace {

using limit::Numbers;

enum ExtraFlag : unsigned { kShadow = 1, kOwed = 2, kKnown = 4 };

char kind_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::gcra:
      return 'g';
    case Algorithm::fixed_window:
      return 'f';
    case Algorithm::sliding_window:
      return 'w';
    case Algorithm::sliding_log:
      break;
  }
  return 'l';
}

char letter_of(Op op) {
  switch (op) {
    case Op::take:
      return 't';
    case Op::drain:
      return 'd';
    case Op::refund:
      return 'r';
    case Op::reset:
      break;
  }
  return 'z';
}

// Costs above every limit are all alike.
std::uint64_t told_cost(std::uint64_t cost) {
  return std::min<std::uint64_t>(cost, kMaxUnits + 1);
}

std::uint64_t load_ms(Instant loaded_at) {
  return static_cast<std::uint64_t>(limit::instant_ns(loaded_at)) / 1'000'000;
}

bool has_owed(const AskOptions& options, std::size_t i) {
  return i < options.owed.size() && options.owed[i].has_value();
}
bool has_known(const AskOptions& options, std::size_t i) {
  return i < options.known.size() && options.known[i].has_value();
}

// ---- Records
// ----------------------------------------------------------------------------------------

// A cost above the burst is as good as one unit more than it: neither fits. Nor does anything where
// the limit is 0.
std::int64_t increment_ns(const Counter& counter) {
  const Numbers& numbers = *counter.numbers;
  const std::uint64_t most = numbers.burst + std::uint64_t{1};
  const auto units = static_cast<std::int64_t>(std::min<std::uint64_t>(counter.cost, most));
  return numbers.interval_ns == 0 ? 1 : numbers.interval_ns * units;
}

void append_windows(const Counter& counter, Instant estimate, std::string& blob) {
  const Numbers& numbers = *counter.numbers;
  const limit::Window window = limit::window_at(numbers, estimate);
  const limit::Window next = limit::window_at(numbers, Instant{Nanos{window.end_ns}});
  append_pair(window.start_ns, blob);
  append_pair(window.end_ns, blob);
  append_pair(next.end_ns, blob);
  append_pair(numbers.period_ns, blob);
}

bool is_windowed(const Numbers& numbers) {
  return numbers.algorithm == Algorithm::fixed_window ||
         numbers.algorithm == Algorithm::sliding_window;
}

void append_record(const Counter& counter, unsigned flags, const AskOptions& options,
                   const AskTimes& times, std::string& blob) {
  const Numbers& numbers = *counter.numbers;
  blob += kind_of(numbers.algorithm);
  append_u32(numbers.limit, blob);
  if (numbers.algorithm == Algorithm::gcra) {
    append_u32(numbers.burst, blob);
    append_pair(numbers.interval_ns, blob);
  }
  append_uint(load_ms(options.loaded_at), 6, blob);
  if (numbers.algorithm == Algorithm::gcra) {
    append_pair(increment_ns(counter), blob);
    append_pair(numbers.tolerance_ns, blob);
  } else if (is_windowed(numbers)) {
    append_windows(counter, options.now.value_or(times.estimate), blob);
  } else {
    append_pair(numbers.period_ns, blob);
  }
  append_uint(told_cost(counter.cost), 5, blob);
  if (counter.op == Op::take && flags == 0) return;
  const bool windowed = is_windowed(numbers);
  blob += letter_of(counter.op);
  append_uint(flags, 1, blob);
  append_pair(windowed ? limit::window_at(numbers, counter.receipt).start_ns
                       : limit::instant_ns(counter.receipt),
              blob);
}

void append_brief(const Counter& counter, const AskOptions& options, const AskTimes& times,
                  std::string& blob) {
  const std::int64_t late_ns = limit::instant_ns(times.not_after);
  const std::int64_t full_ns = late_ns + counter.numbers->tolerance_ns;
  append_pair(std::max<std::int64_t>(full_ns - increment_ns(counter), 0), blob);
  append_pair(full_ns, blob);
  append_record(counter, 0, options, times, blob);
  append_pair(late_ns, blob);
}

void append_header(std::size_t count, AskForm form, const AskOptions& options,
                   const AskTimes& times, std::string& blob) {
  append_pair(limit::instant_ns(times.not_after), blob);
  append_uint(count, 1, blob);
  append_uint(options.now.has_value() ? 1 : 0, 1, blob);
  append_pair(limit::instant_ns(options.now.value_or(Instant{})), blob);
  append_u32(options.expiry_margin_ms, blob);
  append_uint(form == AskForm::plain ? 1 : 0, 1, blob);
}

void append_known(const Numbers& numbers, const Known& known, std::string& blob) {
  append_pair(limit::instant_ns(Instant{Nanos{known.state.time_ns}}), blob);
  if (numbers.algorithm == Algorithm::gcra) return;
  append_u32(known.state.current, blob);
  append_u32(known.state.previous, blob);
}

void append_owed(const Owed& owed, std::string& blob) {
  append_uint(owed.outage, 8, blob);
  append_pair(limit::instant_ns(owed.window), blob);
  append_uint(std::min<std::uint64_t>(owed.units, kMaxUnits), 5, blob);
  append_uint(std::min<std::uint64_t>(owed.standing, kMaxUnits), 5, blob);
  append_uint(std::min<std::uint64_t>(owed.bound, 2 * kMaxUnits), 5, blob);
  append_uint(std::min<std::uint64_t>(owed.confirmed, kMaxUnits), 5, blob);
}

// The shorter forms are for takes that charge, of what the first parts of the script know.
AskForm form_of(std::span<const Counter> counters, const AskOptions& options) {
  if (options.now || options.expiry_margin_ms != AskOptions{}.expiry_margin_ms) {
    return AskForm::full;
  }
  for (std::size_t i = 0; i < counters.size(); ++i) {
    const Counter& counter = counters[i];
    const Algorithm algorithm = counter.numbers->algorithm;
    const bool known = algorithm == Algorithm::gcra || algorithm == Algorithm::fixed_window;
    if (!known || counter.op != Op::take || counter.cost == 0 || counter.shadow ||
        has_owed(options, i) || has_known(options, i)) {
      return AskForm::full;
    }
  }
  const bool one = counters.size() == 1 && counters[0].numbers->algorithm == Algorithm::gcra &&
                   !options.at_exact_time;
  return one ? AskForm::brief : AskForm::plain;
}

// ---- Counters that are kept as envoyproxy/ratelimit keeps them
// ---------------------------------------------------------

// That server's own default: keys of one window do not end together.
constexpr std::uint32_t kExpiryJitterSeconds = 300;
// Whole numbers up to here are exact in Lua.
constexpr std::uint64_t kMostExact = std::uint64_t{1} << 53;

void append_envoyproxy_ask(std::span<const Counter> counters, const AskOptions& options,
                           const AskTimes& times, const KeySpace& keys, bool with_text,
                           std::string& out) {
  thread_local std::string scratch;
  const Instant now = options.now.value_or(times.estimate);
  CommandWriter writer(out);
  writer.begin(4 + 2 * counters.size());
  writer.argument(with_text ? "EVAL" : "EVALSHA");
  writer.argument(with_text ? kEnvoyproxyScript.text : kEnvoyproxyScript.sha);
  writer.number(counters.size());
  for (const Counter& counter : counters) {
    scratch.clear();
    keys.append_envoyproxy(counter.key, limit::window_at(*counter.numbers, now), scratch);
    writer.argument(scratch);
  }
  scratch.clear();
  append_pair(limit::instant_ns(times.not_after), scratch);
  append_uint(kExpiryJitterSeconds, 4, scratch);
  writer.argument(scratch);
  for (const Counter& counter : counters) {
    scratch.clear();
    const limit::Window window = limit::window_at(*counter.numbers, now);
    append_uint(static_cast<std::uint64_t>(window.start_ns / kNanosInSecond), 5, scratch);
    append_uint(static_cast<std::uint64_t>(window.end_ns / kNanosInSecond), 5, scratch);
    append_uint(std::min(counter.cost, kMostExact), 7, scratch);
    writer.argument(scratch);
  }
}

}  // namespace

AskForm append_ask(std::span<const Counter> counters, const AskOptions& options,
                   const AskTimes& times, const KeySpace& keys, bool with_text, std::string& out) {
  if (counters[0].kept == Kept::envoyproxy) {
    append_envoyproxy_ask(counters, options, times, keys, with_text, out);
    return AskForm::envoyproxy;
  }
  thread_local std::string scratch;
  const AskForm form = form_of(counters, options);
  const bool brief = form == AskForm::brief;
  std::size_t records = 0;
  std::size_t extras = 0;
  for (std::size_t i = 0; i < counters.size(); ++i) {
    records += has_owed(options, i);
    extras += has_known(options, i);
  }
  const std::size_t key_count = counters.size() + 2 * records;
  const std::size_t arguments = brief ? 1 : 1 + counters.size() + records + extras;

  CommandWriter writer(out);
  writer.begin(3 + key_count + arguments);
  writer.argument(with_text ? "EVAL" : "EVALSHA");
  writer.argument(with_text ? kAskScript.text : kAskScript.sha);
  writer.number(key_count);
  const auto flush = [&] {
    writer.argument(scratch);
    scratch.clear();
  };
  scratch.clear();
  for (const Counter& counter : counters) {
    keys.append_counter(counter.key, scratch);
    flush();
  }
  for (std::size_t i = 0; i < counters.size(); ++i) {
    if (!has_owed(options, i)) continue;
    const bool windowed = is_windowed(*counters[i].numbers);
    const Instant window = windowed ? options.owed[i]->window : Instant{};
    keys.append_record(counters[i].key, options.owed[i]->worker, window, scratch);
    flush();
    keys.append_total(counters[i].key, window, scratch);
    flush();
  }
  if (brief) {
    append_brief(counters[0], options, times, scratch);
    flush();
    return form;
  }
  append_header(counters.size(), form, options, times, scratch);
  flush();
  for (std::size_t i = 0; i < counters.size(); ++i) {
    const unsigned flags = (counters[i].shadow ? kShadow : 0U) |
                           (has_owed(options, i) ? kOwed : 0U) |
                           (has_known(options, i) ? kKnown : 0U);
    append_record(counters[i], flags, options, times, scratch);
    flush();
  }
  for (std::size_t i = 0; i < counters.size(); ++i) {
    if (has_known(options, i)) {
      append_known(*counters[i].numbers, *options.known[i], scratch);
      flush();
    }
    if (has_owed(options, i)) {
      append_owed(*options.owed[i], scratch);
      flush();
    }
  }
  return form;
}

}  // namespace weir::store::redis
