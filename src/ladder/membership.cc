#include "ladder/membership.h"

#include <algorithm>
#include <charconv>

#include "limit/rendezvous.h"

namespace weir::ladder {
namespace {

constexpr std::string_view kHeading = "weir-membership 1";

// The digest of a member's name that the whole fleet computes alike.
std::uint64_t name_digest(std::string_view name) {
  static const KeyHasher hasher(
      KeyHasher::Secret{'w', 'e', 'i', 'r', ' ', 'm', 'e', 'm', 'b', 'e', 'r'});
  return hasher(name).lo;
}

void append_number(std::string& out, std::int64_t value) {
  char digits[24];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

// Cuts the next word or line off `text`.
std::string_view take_until(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  const std::string_view piece = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return piece;
}

template <class Int>
bool read_number(std::string_view& line, Int& out) {
  const std::string_view word = take_until(line, ' ');
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), out);
  return error == std::errc{} && end == word.data() + word.size() && !word.empty();
}

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= 256 &&
         std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

Error damaged(int line) {
  return Error{ErrorCode::invalid_argument,
               "membership: line " + std::to_string(line) + " is damaged; the file is ignored"};
}

}  // namespace

std::uint32_t MembershipView::counted(Instant now) const {
  std::uint32_t count = 0;
  for (const Member& member : members) {
    if (member.name == self || now < member.lease_until + kSilentPart) ++count;
  }
  return count;
}

const Member* MembershipView::member(std::string_view name) const {
  const auto at =
      std::find_if(members.begin(), members.end(), [&](const Member& m) { return m.name == name; });
  return at == members.end() ? nullptr : &*at;
}

bool MembershipView::holds_part() const {
  const Member* me = member(self);
  if (me == nullptr) return false;
  if (held) return true;
  return std::all_of(members.begin(), members.end(), [&](const Member& other) {
    return other.name == self || other.lease_until <= read_at ||
           other.seen_epoch >= me->joined_epoch;
  });
}

std::string MembershipView::to_text() const {
  std::string out(kHeading);
  out.append("\nhistory ");
  append_number(out, static_cast<std::int64_t>(history));
  out.append("\norigin ");
  append_number(out, static_cast<std::int64_t>(origin));
  out.append("\nheld ").append(holds_part() ? "1" : "0");
  out.append("\nepoch ");
  append_number(out, static_cast<std::int64_t>(epoch));
  out.append("\nself ").append(self).append("\nread_at_ns ");
  append_number(out, read_at.time_since_epoch().count());
  for (const Member& member : members) {
    out.append(member.carried ? "\ncarried " : "\nmember ");
    append_number(out, static_cast<std::int64_t>(member.joined_epoch));
    out.push_back(' ');
    append_number(out, static_cast<std::int64_t>(member.seen_epoch));
    out.push_back(' ');
    append_number(out, member.lease_until.time_since_epoch().count());
    out.push_back(' ');
    out.append(member.name);
  }
  out.append("\nend\n");
  return out;
}

Result<MembershipView> MembershipView::parse(std::string_view text) {
  MembershipView view;
  std::int64_t read_at = 0;
  int number = 1;
  if (take_until(text, '\n') != kHeading) return damaged(number);
  for (;;) {
    ++number;
    if (text.empty()) return damaged(number);  // "end" never came: the file is torn
    std::string_view line = take_until(text, '\n');
    const std::string_view field = take_until(line, ' ');
    if (field == "end") break;
    if (field == "history") {
      if (!read_number(line, view.history)) return damaged(number);
    } else if (field == "origin") {
      std::int64_t origin = 0;
      if (!read_number(line, origin)) return damaged(number);
      view.origin = static_cast<std::uint64_t>(origin);
    } else if (field == "held") {
      if (line != "0" && line != "1") return damaged(number);
      view.held = line == "1";
    } else if (field == "epoch") {
      if (!read_number(line, view.epoch)) return damaged(number);
    } else if (field == "self") {
      if (!is_name(line)) return damaged(number);
      view.self = line;
    } else if (field == "read_at_ns") {
      if (!read_number(line, read_at)) return damaged(number);
    } else if (field == "member" || field == "carried") {
      Member member;
      member.carried = field == "carried";
      std::int64_t lease = 0;
      if (!read_number(line, member.joined_epoch) || !read_number(line, member.seen_epoch) ||
          !read_number(line, lease) || !is_name(line)) {
        return damaged(number);
      }
      member.lease_until = Instant{Nanos(lease)};
      member.name = line;
      view.members.push_back(std::move(member));
    } else {
      return damaged(number);
    }
  }
  if (!text.empty() || view.self.empty()) return damaged(number);
  view.read_at = Instant{Nanos(read_at)};
  return view;
}

Division Division::none(std::string why) {
  Division division;
  division.why_none_ = std::move(why);
  return division;
}

Division Division::of_view(const MembershipView& view) {
  Division division;
  division.workers_ = view.counted(view.read_at);
  division.self_ = name_digest(view.self);
  for (const Member& member : view.members) {
    if (member.name != view.self &&
        view.read_at < member.lease_until + MembershipView::kSilentPart) {
      division.others_.push_back(name_digest(member.name));
    }
  }
  division.has_part_ = view.holds_part();
  if (!division.has_part_)
    division.why_none_ = "joined the fleet, and not every member has seen it yet";
  return division;
}

Division Division::fixed(std::uint32_t of, std::optional<std::uint32_t> index) {
  Division division;
  division.workers_ = of;
  division.index_ = index;
  division.fixed_ = true;
  division.has_part_ = true;
  return division;
}

std::uint32_t Division::place(const KeyDigest& fleet_digest) const noexcept {
  if (!has_part_) return workers_;
  if (fixed_) return index_.value_or(workers_ - 1);
  return static_cast<std::uint32_t>(
      limit::rendezvous_rank(others_, self_, {fleet_digest.hi, fleet_digest.lo}));
}

}  // namespace weir::ladder
