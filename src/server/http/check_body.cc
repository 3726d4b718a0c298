#include "server/http/check_body.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace weir::server::http {
namespace {

// The client's own names are repeated only where they are plain and short.
std::string path_of(std::string_view parent, std::string_view name) {
  constexpr std::size_t kLongest = 64;
  const bool plain =
      !name.empty() && name.size() <= kLongest && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '_' || c == '.' || c == ':';
      });
  std::string path(parent);
  if (!parent.empty()) path += '.';
  path += plain ? name : std::string_view("(unprintable)");
  return path;
}

}  // namespace

std::optional<std::string> CheckBody::read(std::string_view text) {
  by_request = by_domain = false;
  route = method = path = peer = {};
  descriptors.clear();
  headers.clear();
  entries_.clear();
  firsts_.clear();
  ask_ = {};
  cost = 1;
  seen_ = 0;
  problem_.clear();
  reader_.begin(text);
  const bool read = is("The body", JsonReader::Kind::object) &&
                    reader_.object([this](std::string_view key) { return top_member(key); }) &&
                    reader_.end() && complete();
  if (read) return std::nullopt;
  if (problem_.empty()) {
    problem_ = "The body is not JSON, from byte " + std::to_string(reader_.at()) + " on: ";
    problem_ += reader_.fault();
  }
  return problem_;
}

bool CheckBody::top_member(std::string_view key) {
  if (key == "route") return first(kRoute, key) && read_text(key, route);
  if (key == "descriptors") return first(kDescriptors, key) && read_descriptors();
  if (key == "domain") return first(kDomain, key) && read_text(key, ask_.domain);
  if (key == "cost") return first(kCost, key) && read_cost();
  if (key == "request") {
    return first(kRequest, key) && is(key, JsonReader::Kind::object) &&
           reader_.object([this](std::string_view member) { return request_member(member); });
  }
  return wrong(path_of("", key), "is unknown; allowed: route, descriptors, request, domain, cost");
}

bool CheckBody::request_member(std::string_view key) {
  if (key == "method")
    return first(kMethod, "request.method") && read_text("request.method", method);
  if (key == "path") return first(kPath, "request.path") && read_text("request.path", path);
  if (key == "peer") return first(kPeer, "request.peer") && read_text("request.peer", peer);
  if (key == "headers") return first(kHeaders, "request.headers") && read_headers();
  return wrong(path_of("request", key), "is unknown; allowed: method, path, peer, headers");
}

bool CheckBody::read_descriptors() {
  if (reader_.next() != JsonReader::Kind::array) return read_named();
  seen_ |= kLists;
  return read_lists();
}

bool CheckBody::read_lists() {
  return reader_.array([this] {
    firsts_.push_back(entries_.size());
    if (firsts_.size() + entries_.size() > guard::kMaxAskParts) {
      return wrong("descriptors", "hold more than " + std::to_string(guard::kMaxAskParts) +
                                      " lists and entries together");
    }
    return is("descriptors", JsonReader::Kind::array) &&
           reader_.array([this] { return read_entry(); });
  });
}

bool CheckBody::read_entry() {
  guard::DescriptorEntry entry;
  bool has_key = false;
  bool has_value = false;
  const auto member = [&](std::string_view name) {
    if (name == "key") {
      if (std::exchange(has_key, true)) return wrong("descriptors.key", "is given twice");
      return read_text("descriptors.key", entry.key);
    }
    if (name == "value") {
      if (std::exchange(has_value, true)) return wrong("descriptors.value", "is given twice");
      return read_text("descriptors.value", entry.value);
    }
    return wrong(path_of("descriptors", name), "is unknown; allowed: key, value");
  };
  if (!is("descriptors", JsonReader::Kind::object) || !reader_.object(member)) return false;
  if (!has_key) return wrong("descriptors.key", "is missing");
  entries_.push_back(entry);
  return entries_.size() <= guard::kMaxAskParts ||
         wrong("descriptors", "hold more than " + std::to_string(guard::kMaxAskParts) + " entries");
}

bool CheckBody::read_named() {
  return is("descriptors", JsonReader::Kind::object) && reader_.object([this](
                                                                           std::string_view name) {
    for (const Descriptor& each : descriptors) {
      if (each.name == name) return wrong(path_of("descriptors", name), "is given twice");
    }
    if (descriptors.size() >= kMaxDescriptors) {
      return wrong("descriptors", "has more than " + std::to_string(kMaxDescriptors) + " members");
    }
    std::string_view value;
    if (reader_.next() != JsonReader::Kind::string) {
      return is(path_of("descriptors", name), JsonReader::Kind::string);
    }
    if (!reader_.string(value)) return false;
    descriptors.push_back({name, value});
    return true;
  });
}

bool CheckBody::read_headers() {
  return is("request.headers", JsonReader::Kind::object) &&
         reader_.object([this](std::string_view name) { return read_header(name); });
}

bool CheckBody::read_header(std::string_view name) {
  const auto add = [&] {
    if (reader_.next() != JsonReader::Kind::string) {
      return is(path_of("request.headers", name), JsonReader::Kind::string);
    }
    if (headers.size() >= kMaxHeaders) {
      return wrong("request.headers", "has more than " + std::to_string(kMaxHeaders) + " values");
    }
    std::string_view value;
    if (!reader_.string(value)) return false;
    headers.push_back({name, value});
    return true;
  };
  for (const Descriptor& each : headers) {
    if (each.name == name) {
      return wrong(path_of("request.headers", name),
                   "is given twice; the values of a repeated header go into an array");
    }
  }
  if (reader_.next() == JsonReader::Kind::array) return reader_.array(add);
  return add();
}

bool CheckBody::read_cost() {
  std::string_view digits;
  if (!is("cost", JsonReader::Kind::number) || !reader_.number(digits)) return false;
  const char* const end = digits.data() + digits.size();
  const auto [stop, fault] = std::from_chars(digits.data(), end, cost);
  if (fault != std::errc{} || stop != end || cost > kMaxUnits) {
    return wrong("cost", "must be a whole number from 0 to " + std::to_string(kMaxUnits));
  }
  return true;
}

bool CheckBody::read_text(std::string_view field, std::string_view& value) {
  return is(field, JsonReader::Kind::string) && reader_.string(value);
}

bool CheckBody::first(Member member, std::string_view field) {
  if ((seen_ & member) != 0) return wrong(field, "is given twice");
  seen_ |= member;
  return true;
}

bool CheckBody::is(std::string_view field, JsonReader::Kind wanted) {
  const JsonReader::Kind found = reader_.next();
  if (found == wanted) return true;
  if (reader_.failed()) return false;
  return wrong(field, "must be " + std::string(to_string(wanted)) + " and is " +
                          std::string(to_string(found)));
}

bool CheckBody::complete() {
  if ((seen_ & kDomain) != 0) return complete_domain();
  if ((seen_ & kLists) != 0) {
    return wrong("descriptors",
                 "is an array, which goes with domain; beside route it is an object");
  }
  by_request = (seen_ & kRequest) != 0;
  if (by_request && (seen_ & (kRoute | kDescriptors)) != 0) {
    return wrong("request",
                 "stands beside route or descriptors; give request alone, whose match finds the "
                 "route and whose values are its own, or route with descriptors, which alone can "
                 "give the policy's inputs");
  }
  if (!by_request && (seen_ & kRoute) == 0) {
    return wrong("route", "is missing (or domain, or request, to find the route by match)");
  }
  if (by_request && (seen_ & kMethod) == 0) return wrong("request.method", "is missing");
  if (by_request && (seen_ & kPath) == 0) return wrong("request.path", "is missing");
  return true;
}

bool CheckBody::complete_domain() {
  if ((seen_ & (kRoute | kRequest)) != 0) {
    return wrong("domain", "stands beside route or request; give one of the forms");
  }
  if ((seen_ & kDescriptors) != 0 && (seen_ & kLists) == 0) {
    return wrong("descriptors", "must be an array of lists of {\"key\", \"value\"} beside domain");
  }
  by_domain = true;
  asked_.clear();
  for (std::size_t i = 0; i < firsts_.size(); ++i) {
    const std::size_t end = i + 1 < firsts_.size() ? firsts_[i + 1] : entries_.size();
    asked_.push_back({.entries = {entries_.data() + firsts_[i], end - firsts_[i]}});
  }
  ask_.descriptors = asked_;
  ask_.hits = cost;
  return true;
}

bool CheckBody::wrong(std::string_view field, std::string_view why) {
  problem_ = field;
  problem_ += ' ';
  problem_ += why;
  problem_ += '.';
  return false;
}

}  // namespace weir::server::http
