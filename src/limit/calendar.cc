#include "limit/calendar.h"

#include <chrono>

namespace weir::limit {
namespace {

using std::chrono::days;
using std::chrono::floor;
using std::chrono::sys_days;

constexpr std::int64_t kDayNs = std::int64_t{86'400} * 1'000'000'000;
// 1970-01-01 was a Thursday: its ISO week began three days before.
constexpr std::int64_t kMondayShift = 3;

std::int64_t start_of_group(std::int64_t index, std::uint32_t count) {
  return index - index % count;
}

Window days_window(std::int64_t first_day, std::int64_t length_days) {
  return {first_day * kDayNs, (first_day + length_days) * kDayNs};
}

std::int64_t month_start_ns(std::int64_t months_since_1970) {
  const std::chrono::year year{static_cast<int>(1970 + months_since_1970 / 12)};
  const std::chrono::month month{static_cast<unsigned>(months_since_1970 % 12 + 1)};
  return sys_days{year / month / 1}.time_since_epoch().count() * kDayNs;
}

Window months_window(std::int64_t day, std::uint32_t count) {
  const std::chrono::year_month_day date{sys_days{days{day}}};
  const std::int64_t month = (static_cast<int>(date.year()) - 1970) * std::int64_t{12} +
                             static_cast<unsigned>(date.month()) - 1;
  const std::int64_t first = start_of_group(month, count);
  return {month_start_ns(first), month_start_ns(first + count)};
}

}  // namespace

std::int64_t nominal_length_ns(Calendar calendar) noexcept {
  switch (calendar) {
    case Calendar::none:
      return 0;
    case Calendar::day:
      return kDayNs;
    case Calendar::week:
      return 7 * kDayNs;
    case Calendar::month:
      return 30 * kDayNs;
    case Calendar::year:
      return 365 * kDayNs;
  }
  return 0;
}

Window calendar_window(Calendar calendar, std::uint32_t count, std::int64_t now_ns) noexcept {
  const std::int64_t day = now_ns / kDayNs;
  switch (calendar) {
    case Calendar::none:
    case Calendar::day:
      break;
    case Calendar::week: {
      const std::int64_t week = start_of_group((day + kMondayShift) / 7, count);
      return days_window(week * 7 - kMondayShift, std::int64_t{7} * count);
    }
    case Calendar::month:
      return months_window(day, count);
    case Calendar::year:
      return months_window(day, 12 * count);
  }
  return days_window(start_of_group(day, count), count);
}

}  // namespace weir::limit
