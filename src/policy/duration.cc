#include "policy/duration.h"

#include <charconv>
#include <cstdint>
#include <limits>

namespace weir::policy {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t ns;
};

// The largest first.
constexpr Unit kUnits[] = {{"d", 86'400'000'000'000},
                           {"h", 3'600'000'000'000},
                           {"m", 60'000'000'000},
                           {"s", 1'000'000'000},
                           {"ms", 1'000'000},
                           {"us", 1'000},
                           {"ns", 1}};

}  // namespace

std::optional<Nanos> parse_duration(std::string_view text) {
  const std::size_t digits = text.find_first_not_of("0123456789");
  if (digits == 0 || digits == text.npos) return std::nullopt;
  if (digits > 1 && text.front() == '0') return std::nullopt;
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + digits, count);
  if (error != std::errc{}) return std::nullopt;
  for (const Unit& unit : kUnits) {
    if (text.substr(digits) != unit.name) continue;
    if (count > std::numeric_limits<std::int64_t>::max() / unit.ns) return std::nullopt;
    return Nanos(count * unit.ns);
  }
  return std::nullopt;
}

std::string to_text(Nanos duration) {
  for (const Unit& unit : kUnits)
    if (duration.count() != 0 && duration.count() % unit.ns == 0)
      return std::to_string(duration.count() / unit.ns).append(unit.name);
  return std::to_string(duration.count()).append("ns");
}

}  // namespace weir::policy
