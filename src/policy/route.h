#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "limit/numbers.h"
#include "policy/period.h"
#include "policy/source.h"
#include "weir/clock.h"
#include "weir/limits.h"
#include "weir/on_expiry.h"

namespace weir::policy {

// Where something stands in a policy file; both count from 1, 0 where it has no place (built in
// code).
struct Place {
  std::string file;
  int line = 0;
  int column = 0;
};

// A client or value that a rule leaves alone: an address block, or a literal value of the rule's
// single source.
struct Exemption {
  std::string text;  // as written
  // For address blocks: the network in IPv6 form (v4 mapped) and its prefix length on 128 bits.
  std::optional<CidrBlock> block;
};

// Lets maps keyed by std::string be asked with a view, without building a string.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept {
    return std::hash<std::string_view>{}(text);
  }
};
template <class T>
using TextMap = std::unordered_map<std::string, T, TextHash, std::equal_to<>>;

// One limit. Its counters belong to `identity`: the route (or its own name), `by`, period and
// algorithm; never the limit's size, its place in the file, or a node.
struct Rule {
  std::string name;            // as reported: given, or made from the limit: "5 per minute by ip"
  std::string identity_text;   // canonical and structural; see identity.h
  std::uint64_t identity = 0;  // hash of identity_text
  limit::Numbers numbers;
  PeriodSpec per;          // as written
  std::vector<Source> by;  // in canonical order; empty: one counter for all
  // For each of `by`, its place in Route::sources: a request's values are found once a route.
  std::vector<std::uint8_t> slots;
  bool shadow = false;
  bool strict = false;  // a missing value is a 400
  bool meter = false;   // usage is billed: see FailurePolicy::settle
  std::vector<Exemption> exempt;
  // Numbers for one value of the rule's single source, as its key holds it: an address in its
  // bytes (see address.h), anything else as it is.
  TextMap<limit::Numbers> overrides;
  Place place;
};

// A cap on all keys of a route together in one process, needing nothing that can be down.
struct Ceiling {
  limit::Numbers numbers;
  std::string text;
};

struct Match {
  std::vector<std::string> methods;  // upper case; empty: any
  std::string path;                  // normalised; empty: any
  bool prefix = false;  // it ended in "*"; a path that ends in '/' also holds what stands before it
  std::string host;     // lower case; empty: any
  Place place{};
};

// What happens to units that a settling route served beyond its share: dropped, billed later, or
// billed up to `cap` units a key and window.
enum class OverspendMode : std::uint8_t { forgive, bill, cap };
struct Overspend {
  OverspendMode mode = OverspendMode::cap;
  std::uint64_t cap = 0;
};

// How reservations of a route end that nobody settles, where the call does not say.
struct ReservationRule {
  OnExpiry on_expiry = OnExpiry::full;
  std::optional<Nanos> expire;  // absent: each call says it
};
// From so long to so long after it was made, or after its last heartbeat.
inline constexpr Nanos kLeastReservation = std::chrono::seconds(1);
inline constexpr Nanos kMostReservation = std::chrono::hours(24);

struct Route {
  std::string name;
  std::vector<Rule> rules;
  std::vector<Source> sources;  // every source of its rules, once
  std::vector<Match> matches;
  std::optional<Protects> protects;
  FailurePolicy when_store_fails = FailurePolicy::closed;
  bool failure_policy_given = false;  // by when_store_fails:, not through protects:
  std::optional<Ceiling> ceiling;
  std::optional<Overspend> overspend;
  // Usage of metered rules is recorded while the store answers, too; else only without it.
  bool journal_always = true;
  bool shadow = false;  // holds for all rules
  Place place;
  std::optional<ReservationRule> reservations;
};

}  // namespace weir::policy
