#include "store/redis/beat.h"

#include <charconv>
#include <optional>

#include "store/redis/byte_codec.h"
#include "store/redis/command_writer.h"
#include "store/redis/script.h"

namespace weir::store::redis {
namespace {

using std::chrono::milliseconds;

std::string_view to_word(Beat::Kind kind) {
  switch (kind) {
    case Beat::Kind::first:
      return "n";
    case Beat::Kind::again:
      return "b";
    case Beat::Kind::leave:
      return "l";
  }
  return "b";
}

std::uint64_t ms(Nanos length) {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<milliseconds>(length).count());
}

// A whole decimal number below `most`.
std::optional<std::int64_t> number_in(std::string_view text, std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size() || value < 0 || value >= most) {
    return std::nullopt;
  }
  return value;
}

bool read_members(std::string_view value, FleetReply& fleet) {
  if (!value.starts_with('m')) return false;
  ByteReader head(value.substr(1, 18));
  fleet.history = head.uint(6);
  fleet.epoch = head.uint(6);
  head.skip(6);
  if (!head.done()) return false;
  for (std::string_view rest = value.substr(19); !rest.empty();) {
    const auto length = static_cast<std::size_t>(static_cast<unsigned char>(rest.front()));
    const std::size_t size = 1 + length + 8 + 3 * 6;
    if (length == 0 || rest.size() < size) return false;
    ByteReader numbers(rest.substr(1 + length, 8 + 3 * 6));
    FleetMember member;
    member.name = rest.substr(1, length);
    member.incarnation = numbers.uint(8);
    member.joined_epoch = numbers.uint(6);
    member.seen_epoch = numbers.uint(6);
    member.lease_until = Instant{milliseconds(static_cast<std::int64_t>(numbers.uint(6)))};
    fleet.members.push_back(std::move(member));
    rest.remove_prefix(size);
  }
  return true;
}

}  // namespace

void append_beat(const Beat& beat, std::string_view key, bool with_text, std::string& out) {
  std::string incarnation;
  append_uint(beat.incarnation, 8, incarnation);
  CommandWriter writer(out);
  writer.begin(13);
  writer.argument(with_text ? "EVAL" : "EVALSHA");
  writer.argument(with_text ? kBeatScript.text : kBeatScript.sha);
  writer.number(1);
  writer.argument(key);
  writer.argument(beat.name);
  writer.argument(incarnation);
  writer.argument(to_word(beat.kind));
  writer.number(beat.seen_epoch);
  writer.number(ms(beat.lease));
  writer.number(ms(kMemberSilence));
  writer.number(ms(kLongestLease));
  writer.number(ms(kMembershipExpiry));
  writer.number(kMaxMembers);
}

bool read_beat(const Reply& reply, FleetReply& fleet) {
  if (!reply.is_flat_array(5) || reply.at(0).type != ReplyType::string ||
      reply.at(1).type != ReplyType::string || reply.at(2).type != ReplyType::integer ||
      reply.at(3).type != ReplyType::integer || reply.at(4).type != ReplyType::string) {
    return false;
  }
  const auto seconds = number_in(reply.text(reply.at(0)), std::int64_t{1} << 33);
  const auto micros = number_in(reply.text(reply.at(1)), 1'000'000);
  const std::int64_t outcome = reply.at(2).integer;
  if (!seconds || !micros || outcome < 0 || outcome > 3) return false;
  fleet = {};
  fleet.outcome = static_cast<FleetReply::Outcome>(outcome);
  fleet.repaired = reply.at(3).integer != 0;
  fleet.now = Instant{Nanos{*seconds * kNanosInSecond + *micros * 1'000}};
  return read_members(reply.text(reply.at(4)), fleet);
}

}  // namespace weir::store::redis
