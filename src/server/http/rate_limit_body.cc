#include "server/http/rate_limit_body.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

namespace weir::server::http {
namespace {

constexpr std::uint64_t kMost32 = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kMost64 = std::numeric_limits<std::uint64_t>::max();

// The members of all messages, by protobuf's two spellings.
constexpr std::pair<std::string_view, std::string_view> kSpellings[] = {
    {"hits_addend", "hitsAddend"}, {"requests_per_unit", "requestsPerUnit"}};

std::string_view spelt(std::string_view name) noexcept {
  for (const auto& [snake, camel] : kSpellings) {
    if (name == snake) return camel;
  }
  return name;
}

constexpr std::string_view kUnits[] = {"UNKNOWN", "SECOND", "MINUTE", "HOUR",
                                       "DAY",     "MONTH",  "YEAR"};

}  // namespace

std::optional<std::string> RateLimitBody::read(std::string_view text) {
  ask_ = {};
  entries_.clear();
  parts_.clear();
  descriptors_.clear();
  problem_.clear();
  reader_.begin(text);
  const bool read =
      message("The body", [this](std::string_view name) { return request_member(name); }) &&
      reader_.end();
  if (!read) {
    if (problem_.empty()) {
      problem_ = "The body is not JSON, from byte " + std::to_string(reader_.at()) + " on: ";
      problem_ += reader_.fault();
    }
    return problem_;
  }
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const std::size_t end = i + 1 < parts_.size() ? parts_[i + 1].first : entries_.size();
    parts_[i].descriptor.entries = {entries_.data() + parts_[i].first, end - parts_[i].first};
    descriptors_.push_back(parts_[i].descriptor);
  }
  ask_.descriptors = descriptors_;
  // The field cannot tell 0 from "not set", and clients leave it unset for 1.
  ask_.hits = std::max<std::uint64_t>(1, ask_.hits);
  return std::nullopt;
}

bool RateLimitBody::request_member(std::string_view name) {
  if (name == "domain") return text("domain", ask_.domain);
  if (name == "hitsAddend") return number("hitsAddend", kMost32, ask_.hits);
  if (name != "descriptors") return wrong("A member of the request", "is unknown");
  return list("descriptors", [this] {
    Part part{.first = entries_.size(), .descriptor = {}};
    if (!message("A descriptor",
                 [&](std::string_view member) { return descriptor_member(member, part); })) {
      return false;
    }
    parts_.push_back(part);
    return few("descriptors");
  });
}

bool RateLimitBody::descriptor_member(std::string_view name, Part& part) {
  if (name == "hitsAddend") {
    if (is_null()) return true;
    return number("hitsAddend", kMost64, part.descriptor.hits.emplace());
  }
  if (name == "limit") {
    if (is_null()) return true;
    auto& limit = part.descriptor.limit.emplace();
    return message("limit", [&](std::string_view member) { return limit_member(member, limit); });
  }
  if (name != "entries") return wrong("A member of a descriptor", "is unknown");
  return list("entries", [this] {
    guard::DescriptorEntry entry;
    if (!message("An entry", [&](std::string_view member) { return entry_member(member, entry); }))
      return false;
    entries_.push_back(entry);
    return few("entries");
  });
}

bool RateLimitBody::limit_member(std::string_view name, guard::LimitOverride& limit) {
  if (name == "unit") return unit(limit.unit);
  if (name != "requestsPerUnit") return wrong("A member of limit", "is unknown");
  std::uint64_t value = 0;
  if (!number("requestsPerUnit", kMost32, value)) return false;
  limit.requests_per_unit = static_cast<std::uint32_t>(value);
  return true;
}

bool RateLimitBody::entry_member(std::string_view name, guard::DescriptorEntry& entry) {
  if (name == "key") return text("key", entry.key);
  if (name == "value") return text("value", entry.value);
  return wrong("A member of an entry", "is unknown");
}

template <class Member>
bool RateLimitBody::message(std::string_view where, Member&& member) {
  // No message has more; an unknown one ends the reading.
  std::array<std::string_view, 4> seen;
  std::size_t count = 0;
  return is(where, JsonReader::Kind::object) && reader_.object([&](std::string_view written) {
    const std::string_view name = spelt(written);
    for (std::size_t i = 0; i < count; ++i) {
      if (seen[i] == name) return wrong(where, "has a member twice");
    }
    if (count < seen.size()) seen[count++] = name;
    return member(name);
  });
}

template <class Element>
bool RateLimitBody::list(std::string_view where, Element&& element) {
  if (is_null()) return true;
  return is(where, JsonReader::Kind::array) && reader_.array(element);
}

bool RateLimitBody::text(std::string_view where, std::string_view& value) {
  if (is_null()) return true;
  return is(where, JsonReader::Kind::string) && reader_.string(value);
}

bool RateLimitBody::number(std::string_view where, std::uint64_t most, std::uint64_t& value) {
  if (is_null()) return true;
  std::string_view digits;
  const bool quoted = reader_.next() == JsonReader::Kind::string;
  if (quoted ? !reader_.string(digits)
             : !is(where, JsonReader::Kind::number) || !reader_.number(digits)) {
    return false;
  }
  const char* const end = digits.data() + digits.size();
  const auto [stop, fault] = std::from_chars(digits.data(), end, value);
  if (fault != std::errc{} || stop != end || value > most) {
    return wrong(where, "must be a whole number from 0 to " + std::to_string(most));
  }
  return true;
}

bool RateLimitBody::unit(guard::LimitUnit& unit) {
  std::uint64_t number_of_it = 0;
  if (reader_.next() == JsonReader::Kind::string) {
    std::string_view name;
    if (!reader_.string(name)) return false;
    const auto found = std::find(std::begin(kUnits), std::end(kUnits), name);
    if (found == std::end(kUnits)) {
      return wrong("unit", "must be SECOND, MINUTE, HOUR, DAY, MONTH, YEAR or UNKNOWN");
    }
    number_of_it = static_cast<std::uint64_t>(found - std::begin(kUnits));
  } else if (!number("unit", kMost32, number_of_it)) {
    return false;
  }
  // A number that the enumeration does not have is no unit.
  unit = number_of_it < std::size(kUnits) ? static_cast<guard::LimitUnit>(number_of_it)
                                          : guard::LimitUnit::unknown;
  return true;
}

bool RateLimitBody::few(std::string_view where) {
  return parts_.size() + entries_.size() <= guard::kMaxAskParts ||
         wrong(where, "are more than " + std::to_string(guard::kMaxAskParts) + " together");
}

bool RateLimitBody::is_null() {
  return reader_.next() == JsonReader::Kind::null && reader_.null();
}

bool RateLimitBody::is(std::string_view where, JsonReader::Kind wanted) {
  const JsonReader::Kind found = reader_.next();
  if (found == wanted) return true;
  if (reader_.failed()) return false;
  return wrong(where, "must be " + std::string(to_string(wanted)) + " and is " +
                          std::string(to_string(found)));
}

bool RateLimitBody::wrong(std::string_view where, std::string_view why) {
  problem_ = where;
  problem_ += ' ';
  problem_ += why;
  problem_ += '.';
  return false;
}

}  // namespace weir::server::http
