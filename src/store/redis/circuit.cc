#include "store/redis/circuit.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>

#include "store/redis/byte_codec.h"
#include "store/redis/script.h"

namespace weir::store::redis {
namespace {

using std::chrono::milliseconds;
using Flag = CircuitAction::Flag;
using Kind = CircuitAction::Kind;

std::string_view word_of(Kind kind) {
  switch (kind) {
    case Kind::read:
      return "r";
    case Kind::vote:
      return "v";
    case Kind::trip:
      return "t";
    case Kind::probe:
      return "p";
    case Kind::settle:
      return "s";
    case Kind::force:
      return "f";
  }
  return "r";
}

std::string_view word_of(Flag flag) {
  switch (flag) {
    case Flag::none:
      return "-";
    case Flag::bad:
      return "b";
    case Flag::still_bad:
      return "B";
    case Flag::good:
      return "g";
    case Flag::ok:
      return "o";
    case Flag::failed:
      return "f";
    case Flag::neither:
      return "n";
    case Flag::automatic:
      return "a";
    case Flag::forced_open:
      return "O";
    case Flag::forced_closed:
      return "C";
  }
  return "-";
}

// Whole milliseconds, rounded up: no wait gets shorter on its way into the store.
std::uint64_t ms(Nanos length) {
  return static_cast<std::uint64_t>(
      std::chrono::ceil<milliseconds>(std::max(length, Nanos::zero())).count());
}

Instant instant_of(std::uint64_t since_epoch_ms) {
  return Instant{milliseconds(static_cast<std::int64_t>(since_epoch_ms))};
}

std::string packed(const CircuitAction& action, const BreakerConfig& config) {
  std::string out;
  append_uint(ms(config.open_wait), 4, out);
  append_uint(ms(config.max_open_wait), 4, out);
  append_uint(static_cast<std::uint64_t>(std::clamp(action.jitter_thousandths, -500, 500) + 500), 2,
              out);
  append_uint(config.probes, 2, out);
  append_uint(config.probes_in_flight, 2, out);
  append_uint(config.probe_successes, 2, out);
  append_uint(ms(config.probe_deadline), 4, out);
  append_uint(config.expired_probe == ExpiredProbe::fails ? 1 : 0, 1, out);
  append_uint(ms(config.max_half_open), 4, out);
  append_uint(ms(ramp_length(config)), 4, out);
  append_uint(ms(config.forget_after), 4, out);
  append_uint(ms(config.max_retry_after), 4, out);
  append_uint(kCircuitQuorum, 2, out);
  append_uint(kMostVoters, 2, out);
  return out;
}

std::optional<std::int64_t> number_in(std::string_view text, std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size() || value < 0 || value >= most)
    return std::nullopt;
  return value;
}

// TIME, as a reply's first two elements.
std::optional<Instant> time_in(const Reply& reply) {
  const auto seconds = number_in(reply.text(reply.at(0)), std::int64_t{1} << 33);
  const auto micros = number_in(reply.text(reply.at(1)), 1'000'000);
  if (!seconds || !micros) return std::nullopt;
  return Instant{Nanos{*seconds * kNanosInSecond + *micros * 1'000}};
}

bool read_letters(char state, char mode, CircuitRecord& record) {
  const std::size_t which_state = std::string_view("cohr").find(state);
  const std::size_t which_mode = std::string_view("aOC").find(mode);
  if (which_state == std::string_view::npos || which_mode == std::string_view::npos) return false;
  record.state = static_cast<CircuitRecord::State>(which_state);
  record.mode = static_cast<CircuitRecord::Mode>(which_mode);
  return true;
}

// Who ordered a mode, and why: the first's length, then both.
constexpr std::size_t kMostBy = 64;
constexpr std::size_t kMostReason = 200;

std::string note_of(std::string_view by, std::string_view reason) {
  by = by.substr(0, kMostBy);
  std::string out;
  if (by.empty() && reason.empty()) return out;
  append_uint(by.size(), 1, out);
  return out.append(by).append(reason.substr(0, kMostReason));
}

// Of another's note whatever is too long is left out.
void read_note(std::string_view note, CircuitRecord& record) {
  if (note.empty()) return;
  const std::size_t by = static_cast<unsigned char>(note[0]);
  note.remove_prefix(1);
  record.by = note.substr(0, std::min(by, kMostBy));
  if (note.size() > by) record.reason = note.substr(by, kMostReason);
}

bool read_record(std::string_view value, CircuitRecord& record) {
  constexpr std::size_t kHead = 45;
  constexpr std::size_t kVote = 15;
  constexpr std::size_t kProbe = 18;
  if (value.size() < kHead || value[0] != 'd' || !read_letters(value[1], value[26], record))
    return false;
  ByteReader front(value.substr(2, 24));
  record.epoch = front.uint(6);
  record.round = front.u32();
  record.openings = static_cast<std::uint32_t>(front.uint(2));
  record.since = instant_of(front.uint(6));
  record.until = instant_of(front.uint(6));
  ByteReader back(value.substr(27, 18));
  record.mode_until = instant_of(back.uint(6));
  record.ok = static_cast<std::uint32_t>(back.uint(2));
  record.failed = static_cast<std::uint32_t>(back.uint(2));
  back.skip(4);
  const std::uint64_t votes = back.uint(2);
  const std::uint64_t note = back.uint(2);
  if (!front.done() || !back.done() || value.size() < kHead + note) return false;
  read_note(value.substr(kHead, note), record);
  value.remove_prefix(kHead + note);
  if (value.size() < votes * kVote || (value.size() - votes * kVote) % kProbe != 0) return false;
  for (std::uint64_t i = 0; i < votes; ++i, value.remove_prefix(kVote)) {
    ByteReader who(value.substr(0, 8));
    ByteReader till(value.substr(9, 6));
    record.votes.push_back(
        {.who = who.uint(8), .bad = value[8] == 'b', .till = instant_of(till.uint(6))});
  }
  for (; !value.empty(); value.remove_prefix(kProbe)) {
    ByteReader probe(value.substr(0, kProbe));
    const std::uint64_t who = probe.uint(8);
    const std::uint32_t number = probe.u32();
    record.probes.push_back({.who = who, .number = number, .till = instant_of(probe.uint(6))});
  }
  return true;
}

}  // namespace

Nanos ramp_length(const BreakerConfig& config) {
  if (!config.ramp) return Nanos::zero();
  std::int64_t steps = 1;
  for (std::uint64_t share = std::uint64_t{0x10000} * config.ramp->start_percent / 100;
       share < 0x10000; ++steps)
    share = std::max(share * config.ramp->growth_percent / 100, share + 1);
  return config.ramp->step * steps;
}

std::vector<std::string> circuit_arguments(const CircuitAction& action,
                                           const BreakerConfig& config) {
  std::string who;
  append_uint(action.who, 8, who);
  const std::uint64_t b = action.kind == Kind::settle ? action.probe : ms(action.lasts);
  return {std::string(word_of(action.kind)), who,
          std::to_string(action.epoch),      std::to_string(action.round),
          std::string(word_of(action.flag)), std::to_string(b),
          std::to_string(ms(action.wanted)), packed(action, config),
          note_of(action.by, action.reason)};
}

StoreCall circuit_call(const CircuitAction& action, const BreakerConfig& config, std::string key,
                       std::string changes_key) {
  return {.script = &kCircuitScript,
          .keys = {std::move(key), std::move(changes_key)},
          .arguments = circuit_arguments(action, config)};
}

StoreCall circuits_call(std::vector<std::string> keys) {
  return {.script = &kCircuitsScript, .keys = std::move(keys)};
}

bool read_circuit(const Reply& reply, CircuitReply& out) {
  if (!reply.is_flat_array(6) || reply.at(0).type != ReplyType::string ||
      reply.at(1).type != ReplyType::string || reply.at(5).type != ReplyType::string)
    return false;
  for (std::size_t i = 2; i < 5; ++i)
    if (reply.at(i).type != ReplyType::integer) return false;
  const auto now = time_in(reply);
  const std::int64_t outcome = reply.at(2).integer;
  const std::int64_t probe = reply.at(3).integer;
  if (!now || outcome < 0 || outcome > 3 || probe < 0 || probe > UINT32_MAX) return false;
  out = {};
  out.outcome = static_cast<CircuitReply::Outcome>(outcome);
  out.probe = static_cast<std::uint32_t>(probe);
  out.repaired = reply.at(4).integer != 0;
  out.now = *now;
  const std::string_view value = reply.text(reply.at(5));
  out.kept = !value.empty();
  return value.empty() || read_record(value, out.record);
}

bool read_circuits(const Reply& reply, std::size_t records, CircuitsReply& out) {
  if (!reply.is_flat_array(3 + records)) return false;
  for (std::size_t i = 0; i < 3 + records; ++i)
    if (reply.at(i).type != ReplyType::string) return false;
  const auto now = time_in(reply);
  if (!now) return false;
  out = {.now = *now, .changes = std::string(reply.text(reply.at(2)))};
  for (std::size_t i = 0; i < records; ++i) {
    const std::string_view value = reply.text(reply.at(3 + i));
    CircuitRecord record;
    if (!value.empty() && read_record(value, record))
      out.records.emplace_back(std::move(record));
    else
      out.records.emplace_back();
  }
  return true;
}

}  // namespace weir::store::redis
