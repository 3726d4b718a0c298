#include "store/redis/lease.h"

#include <algorithm>
#include <charconv>
#include <chrono>

#include "store/redis/byte_codec.h"

namespace weir::store::redis {
namespace {

using std::chrono::milliseconds;

std::string_view word_of(LeaseAction::Kind kind) {
  switch (kind) {
    case LeaseAction::Kind::acquire:
      return "a";
    case LeaseAction::Kind::renew:
      return "n";
    case LeaseAction::Kind::release:
      return "r";
    case LeaseAction::Kind::keep:
      return "k";
  }
  return "n";
}

// Whole milliseconds, rounded down: nobody is told of more time than there is.
std::string ms(Nanos length) {
  return std::to_string(std::max<std::int64_t>(length / milliseconds(1), 0));
}

std::optional<std::uint64_t> number_in(std::string_view text, std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size() || value > most) return std::nullopt;
  return value;
}

}  // namespace

StoreCall lease_call(const LeaseAction& action, const ConcurrencyConfig& config,
                     const std::string& key) {
  StoreCall call{.script = &kLeaseScript, .keys = {key, key + "!ends"}};
  call.arguments = {
      std::string(word_of(action.kind)), action.id,           std::to_string(action.weight),
      std::to_string(config.limit),      ms(config.lease),    ms(config.max_hold),
      std::to_string(action.fence),      ms(action.held_for), ms(action.left)};
  return call;
}

bool read_lease(const Reply& reply, LeaseReply& out) {
  constexpr std::size_t kElements = 11;
  constexpr std::int64_t kMostUnits = std::int64_t{1} << 40;
  constexpr std::int64_t kMostMs = std::int64_t{1} << 40;
  if (!reply.is_flat_array(kElements)) return false;
  for (std::size_t i = 0; i < kElements; ++i) {
    const bool text = i == 0 || i == 1 || i == 7;
    if (reply.at(i).type != (text ? ReplyType::string : ReplyType::integer)) return false;
  }
  const auto seconds = number_in(reply.text(reply.at(0)), std::uint64_t{1} << 33);
  const auto micros = number_in(reply.text(reply.at(1)), 999'999);
  const auto fence = number_in(reply.text(reply.at(7)), (std::uint64_t{1} << 53) - 1);
  const auto in = [&](std::size_t i, std::int64_t most) {
    return reply.at(i).integer >= 0 && reply.at(i).integer <= most;
  };
  if (!seconds || !micros || !fence || !in(2, 5) || !in(3, kMostUnits) || !in(4, 1) ||
      !in(5, kMostUnits) || !in(6, UINT32_MAX) || !in(8, kMostMs) || !in(9, kMostMs * 4))
    return false;
  out = {};
  out.outcome = static_cast<LeaseReply::Outcome>(reply.at(2).integer);
  out.now = Instant{Nanos{static_cast<std::int64_t>(*seconds) * kNanosInSecond +
                          static_cast<std::int64_t>(*micros) * 1'000}};
  out.held = static_cast<std::uint64_t>(reply.at(3).integer);
  out.repaired = reply.at(4).integer != 0;
  out.ended = static_cast<std::uint64_t>(reply.at(5).integer);
  out.weight = static_cast<std::uint32_t>(reply.at(6).integer);
  out.fence = *fence;
  out.left = milliseconds(reply.at(8).integer);
  out.held_for = milliseconds(reply.at(9).integer);
  if (reply.at(10).integer >= 0) out.next_end = milliseconds(reply.at(10).integer);
  return true;
}

}  // namespace weir::store::redis
