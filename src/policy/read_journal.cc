#include "policy/read_journal.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>

namespace weir::policy {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kLeastBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;

// "256MiB": a whole number and a unit. Absent where it is not that, or past 64 bits.
std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view unit = text.substr(digits);
  const int shift = unit == "MiB" ? 20 : unit == "GiB" ? 30 : 0;
  if (shift == 0 || digits == 0 || digits > 6 || text[0] == '0') return std::nullopt;
  return std::stoull(std::string(text.substr(0, digits))) << shift;
}

void read_max(FaultList& faults, const Value& at, std::uint64_t& out) {
  const auto text = read_text(faults, at);
  if (!text) return;
  const auto bytes = parse_bytes(*text);
  if (bytes && *bytes >= kLeastBytes && *bytes <= kMostBytes)
    out = *bytes;
  else
    faults.add(*at.node, at.path, bytes ? "is past the range" : "is no size",
               "a whole number with MiB or GiB, from 1MiB to 1024GiB");
}

void read_ledger(FaultList& faults, const Value& at, std::string& out) {
  const auto text = read_text(faults, at);
  if (!text) return;
  const bool sqlite = text->starts_with("sqlite:") && text->size() > 7;
  const bool postgres = text->starts_with("postgresql://") || text->starts_with("postgres://");
  if (!sqlite && !postgres) {
    faults.add(*at.node, at.path, "names no ledger",
               "sqlite:PATH, of this worker alone, or postgresql://USER@HOST/DATABASE, of a fleet");
    return;
  }
  const std::size_t begin = text->find("//");
  const std::size_t at_sign = text->find('@');
  if (postgres && at_sign != std::string::npos && text->find(':', begin) < at_sign) {
    faults.add_silent(*at.node, at.path, "holds a password, which everybody may read here",
                      "the same without it; PGPASSFILE names the file of passwords");
    return;
  }
  out = *text;
}

}  // namespace

JournalSpec read_journal(FaultList& faults, const Value& at) {
  JournalSpec journal;
  if (at.node->is_scalar()) {
    journal.folder = read_text(faults, at).value_or("");
    return journal;
  }
  MapReader map(faults, at, "a journal", {"folder", "max", "within", "ledger"});
  if (!map.is_map()) return journal;
  if (const auto value = map.get("folder"))
    journal.folder = read_text(faults, *value).value_or("");
  else if (!map.has("folder"))
    faults.add_silent(*at.node, at.path, "names no folder",
                      "folder: /var/lib/weir/journal, on a disk of this machine");
  if (const auto value = map.get("max")) read_max(faults, *value, journal.max_bytes);
  if (const auto value = map.get("within"))
    journal.within = read_duration(faults, *value, 1ms, 10s).value_or(journal.within);
  if (const auto value = map.get("ledger")) read_ledger(faults, *value, journal.ledger);
  return journal;
}

}  // namespace weir::policy
