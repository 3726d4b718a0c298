#include "drill/run/log_time.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string>

namespace weir::drill {
namespace {

// A number of so many digits, and the mark that follows.
bool take(std::string_view& text, std::size_t digits, char mark, int& number) {
  if (text.size() <= digits || text[digits] != mark) return false;
  const auto read = std::from_chars(text.data(), text.data() + digits, number);
  if (read.ec != std::errc() || read.ptr != text.data() + digits) return false;
  text.remove_prefix(digits + 1);
  return true;
}

std::optional<Instant> time_of_line(std::string_view line) {
  constexpr std::string_view kField = "time=";
  if (!line.starts_with(kField)) return std::nullopt;
  line.remove_prefix(kField.size());
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, ms = 0;
  if (!take(line, 4, '-', year) || !take(line, 2, '-', month) || !take(line, 2, 'T', day) ||
      !take(line, 2, ':', hour) || !take(line, 2, ':', minute) || !take(line, 2, '.', second) ||
      !take(line, 3, 'Z', ms)) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return std::nullopt;
  return Instant{std::chrono::sys_days(date).time_since_epoch() + std::chrono::hours(hour) +
                 std::chrono::minutes(minute) + std::chrono::seconds(second) +
                 std::chrono::milliseconds(ms)};
}

}  // namespace

std::optional<Instant> time_of_event(std::string_view log, std::string_view event, Instant from) {
  const std::string word = " event=" + std::string(event);
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(line.size() + 1, log.size()));
    const std::size_t at = line.find(word);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = line.substr(at + word.size());
    if (!rest.empty() && rest.front() != ' ') continue;
    const auto time = time_of_line(line);
    if (time && *time >= std::chrono::floor<std::chrono::milliseconds>(from)) return time;
  }
  return std::nullopt;
}

}  // namespace weir::drill
