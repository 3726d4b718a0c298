#include "policy/period.h"

#include <charconv>
#include <limits>

#include "policy/duration.h"

namespace weir::policy {
namespace {

struct Unit {
  std::string_view name;
  PeriodUnit unit;
  std::int64_t seconds;
  limit::Calendar calendar;
};

constexpr Unit kUnits[] = {
    {"second", PeriodUnit::second, 1, limit::Calendar::none},
    {"minute", PeriodUnit::minute, 60, limit::Calendar::none},
    {"hour", PeriodUnit::hour, 3'600, limit::Calendar::none},
    {"day", PeriodUnit::day, 86'400, limit::Calendar::day},
    {"week", PeriodUnit::week, 7 * 86'400, limit::Calendar::week},
    {"month", PeriodUnit::month, 30 * 86'400, limit::Calendar::month},
    {"year", PeriodUnit::year, 365 * 86'400, limit::Calendar::year},
};

const Unit* find_unit(std::string_view name) {
  if (name.ends_with('s')) name.remove_suffix(1);
  for (const Unit& unit : kUnits)
    if (unit.name == name) return &unit;
  return nullptr;
}

}  // namespace

std::optional<PeriodSpec> parse_period(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0) {
    const Unit* unit = find_unit(text);
    if (unit == nullptr || text.ends_with('s')) return std::nullopt;
    return PeriodSpec{.unit = unit->unit};
  }
  const std::size_t word = text.find_first_not_of(' ', digits);
  if (word == text.npos || text.front() == '0') return std::nullopt;
  if (word == digits) {
    const auto exact = parse_duration(text);
    if (!exact || exact->count() == 0) return std::nullopt;
    return PeriodSpec{.unit = PeriodUnit::exact, .count = 1, .exact = *exact};
  }
  PeriodSpec out;
  const auto [end, error] = std::from_chars(text.data(), text.data() + digits, out.count);
  const Unit* unit = find_unit(text.substr(word));
  if (error != std::errc{} || unit == nullptr) return std::nullopt;
  out.unit = unit->unit;
  return out;
}

std::string to_text(const PeriodSpec& period) {
  if (period.unit == PeriodUnit::exact) return to_text(period.exact);
  for (const Unit& unit : kUnits) {
    if (unit.unit != period.unit) continue;
    if (period.count == 1) return std::string(unit.name);
    return std::to_string(period.count).append(" ").append(unit.name).append("s");
  }
  return {};
}

std::optional<limit::Period> period_of(const PeriodSpec& period, Algorithm algorithm) {
  if (period.unit == PeriodUnit::exact) return limit::Period{.length = period.exact};
  for (const Unit& unit : kUnits) {
    if (unit.unit != period.unit) continue;
    const std::int64_t one = unit.seconds * 1'000'000'000;
    if (period.count > std::numeric_limits<std::int64_t>::max() / one) return std::nullopt;
    limit::Period out{.length = Nanos(one * period.count)};
    if (algorithm == Algorithm::fixed_window && period.is_calendar()) {
      out.calendar = unit.calendar;
      out.count = period.count;
    }
    return out;
  }
  return std::nullopt;
}

}  // namespace weir::policy
