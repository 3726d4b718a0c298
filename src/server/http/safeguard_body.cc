#include "server/http/safeguard_body.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <utility>

namespace weir::server::http {
namespace {

using Member = SafeguardBody::Member;

constexpr std::array<std::pair<std::string_view, Member>, 19> kMembers{{
    {"spread", Member::kSpread},
    {"permit", Member::kPermit},
    {"outcome", Member::kOutcome},
    {"retry_after_ms", Member::kRetryAfter},
    {"open_for_ms", Member::kOpenFor},
    {"descriptors", Member::kDescriptors},
    {"weight", Member::kWeight},
    {"id", Member::kId},
    {"mode", Member::kMode},
    {"breaker", Member::kBreaker},
    {"route", Member::kRoute},
    {"estimate", Member::kEstimate},
    {"expire_ms", Member::kExpire},
    {"on_expiry", Member::kOnExpiry},
    {"reservation", Member::kReservation},
    {"units", Member::kUnits},
    {"by", Member::kBy},
    {"reason", Member::kReason},
    {"for_ms", Member::kFor},
}};

// A day: no breaker waits longer.
constexpr std::uint64_t kMostMilliseconds = 86'400'000;
// Of a wait that a dependency asked for, and of a mode: a year, and a day more in a leap year.
constexpr std::uint64_t kYearMilliseconds = 366 * kMostMilliseconds;

std::string names_of(unsigned members) {
  std::string out;
  for (const auto& [name, member] : kMembers)
    if ((members & member) != 0) out += (out.empty() ? "" : ", ") + std::string(name);
  return out;
}

// The word's value among `all`, and all the words where it is none of them.
template <class Enum, std::size_t N>
std::optional<Enum> among(const std::array<Enum, N>& all, std::string_view word,
                          std::string& words) {
  for (const Enum each : all) {
    if (to_string(each) == word) return each;
    words += (words.empty() ? "" : ", ") + std::string(to_string(each));
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> SafeguardBody::read(std::string_view text, unsigned taken,
                                               unsigned needed) {
  spread.reset();
  permit = breaker = route = reservation = by = reason = {};
  lasts.reset();
  id.reset();
  estimate = units = 0;
  expire.reset();
  on_expiry.reset();
  outcome = Outcome::ok;
  mode = BreakerMode::automatic;
  retry_after.reset();
  open_for.reset();
  descriptors.clear();
  weight = 1;
  seen_ = 0;
  problem_.clear();
  const bool empty = text.find_first_not_of(" \t\r\n") == text.npos;
  reader_.begin(empty ? std::string_view("{}") : text);
  const bool read = is("The body", JsonReader::Kind::object) &&
                    reader_.object([&](std::string_view key) { return member(key, taken); }) &&
                    reader_.end();
  if (read && (seen_ & needed) == needed) return std::nullopt;
  if (read) {
    problem_ = names_of(needed & ~seen_) + " is missing";
  } else if (problem_.empty()) {
    problem_ = "The body is not JSON, from byte " + std::to_string(reader_.at()) + " on: ";
    problem_ += reader_.fault();
  }
  return problem_;
}

bool SafeguardBody::member(std::string_view key, unsigned taken) {
  for (const auto& [name, which] : kMembers) {
    if (key != name || (taken & which) == 0) continue;
    if ((seen_ & which) != 0) return wrong(name, "is given twice");
    seen_ |= which;
    return read_member(which, name);
  }
  return wrong("a member", "is unknown; allowed: " + names_of(taken));
}

bool SafeguardBody::read_member(Member which, std::string_view key) {
  switch (which) {
    case kSpread:
      return read_text(key, spread.emplace());
    case kPermit:
      return read_text(key, permit);
    case kOutcome:
      return read_outcome();
    case kRetryAfter:
      return read_wait(key, retry_after);
    case kOpenFor:
      return read_wait(key, open_for);
    case kDescriptors:
      return read_descriptors();
    case kWeight: {
      std::uint64_t value = 0;
      if (!read_number(key, 1, 1'000'000, value)) return false;
      weight = static_cast<std::uint32_t>(value);
      return true;
    }
    case kId:
      return read_text(key, id.emplace());
    case kMode:
      return read_mode();
    case kBreaker:
      return read_text(key, breaker);
    case kRoute:
      return read_text(key, route);
    case kEstimate:
      return read_number(key, 0, kMaxUnits, estimate);
    case kExpire:
      return read_time(key, expire);
    case kOnExpiry:
      return read_on_expiry();
    case kReservation:
      return read_text(key, reservation);
    case kUnits:
      return read_number(key, 0, kMaxUnits, units);
    case kBy:
      return read_text(key, by);
    case kReason:
      return read_text(key, reason);
    case kFor: {
      std::uint64_t milliseconds = 0;
      if (!read_number(key, 1, kYearMilliseconds, milliseconds)) return false;
      lasts = std::chrono::milliseconds(milliseconds);
      return true;
    }
  }
  return false;
}

bool SafeguardBody::read_text(std::string_view field, std::string_view& value) {
  return is(field, JsonReader::Kind::string) && reader_.string(value);
}

bool SafeguardBody::read_number(std::string_view field, std::uint64_t least, std::uint64_t most,
                                std::uint64_t& value) {
  std::string_view digits;
  if (!is(field, JsonReader::Kind::number) || !reader_.number(digits)) return false;
  const char* const end = digits.data() + digits.size();
  const auto [stop, fault] = std::from_chars(digits.data(), end, value);
  if (fault == std::errc{} && stop == end && value >= least && value <= most) return true;
  return wrong(field, "must be a whole number from " + std::to_string(least) + " to " +
                          std::to_string(most));
}

bool SafeguardBody::read_time(std::string_view field, std::optional<Nanos>& value) {
  std::uint64_t milliseconds = 0;
  if (!read_number(field, 0, kMostMilliseconds, milliseconds)) return false;
  value = std::chrono::milliseconds(milliseconds);
  return true;
}

// What somebody else says, and the caller only hands on: more than a year is a year.
bool SafeguardBody::read_wait(std::string_view field, std::optional<Nanos>& value) {
  std::uint64_t milliseconds = 0;
  if (!read_number(field, 0, UINT64_MAX, milliseconds)) return false;
  value = std::chrono::milliseconds(std::min(milliseconds, kYearMilliseconds));
  return true;
}

bool SafeguardBody::read_outcome() {
  constexpr std::array kAll{Outcome::ok,      Outcome::failure,   Outcome::slow,
                            Outcome::ignored, Outcome::cancelled, Outcome::local_reject,
                            Outcome::expired};
  std::string_view word;
  if (!read_text("outcome", word)) return false;
  std::string words;
  const auto found = among(kAll, word, words);
  if (!found) return wrong("outcome", "must be one of " + words);
  outcome = *found;
  return true;
}

bool SafeguardBody::read_mode() {
  constexpr std::array kAll{BreakerMode::automatic, BreakerMode::forced_open,
                            BreakerMode::forced_closed, BreakerMode::disabled, BreakerMode::shadow};
  std::string_view word;
  if (!read_text("mode", word)) return false;
  std::string words;
  const auto found = among(kAll, word, words);
  if (!found) return wrong("mode", "must be one of " + words);
  mode = *found;
  return true;
}

bool SafeguardBody::read_on_expiry() {
  std::string_view word;
  if (!read_text("on_expiry", word)) return false;
  std::string words;
  on_expiry =
      among(std::array{OnExpiry::full, OnExpiry::last_heartbeat, OnExpiry::zero}, word, words);
  return on_expiry.has_value() || wrong("on_expiry", "must be one of " + words);
}

bool SafeguardBody::read_descriptors() {
  return is("descriptors", JsonReader::Kind::object) && reader_.object([this](
                                                                           std::string_view name) {
    for (const Descriptor& each : descriptors)
      if (each.name == name) return wrong("descriptors", "name one source twice");
    if (descriptors.size() >= kMaxDescriptors)
      return wrong("descriptors", "have more than " + std::to_string(kMaxDescriptors) + " members");
    std::string_view value;
    if (!read_text("descriptors", value)) return false;
    descriptors.push_back({name, value});
    return true;
  });
}

bool SafeguardBody::is(std::string_view field, JsonReader::Kind wanted) {
  const JsonReader::Kind found = reader_.next();
  if (found == wanted) return true;
  if (reader_.failed()) return false;
  return wrong(field, "must be " + std::string(to_string(wanted)) + " and is " +
                          std::string(to_string(found)));
}

bool SafeguardBody::wrong(std::string_view field, std::string_view why) {
  problem_ = std::string(field) + " " + std::string(why);
  return false;
}

}  // namespace weir::server::http
