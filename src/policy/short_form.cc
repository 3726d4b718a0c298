#include "policy/short_form.h"

#include <charconv>

#include "policy/fault_list.h"
#include "weir/limits.h"

namespace weir::policy {
namespace {

// Splits off the next word; blanks around it are gone.
std::string_view next_word(std::string_view& rest) {
  const std::size_t begin = rest.find_first_not_of(' ');
  if (begin == rest.npos) return rest = {};
  const std::size_t end = std::min(rest.find(' ', begin), rest.size());
  const std::string_view word = rest.substr(begin, end - begin);
  rest.remove_prefix(end);
  return word;
}

bool is_number(std::string_view word) {
  return !word.empty() && word.find_first_not_of("0123456789") == word.npos &&
         (word.size() == 1 || word.front() != '0');
}

std::string quoted(std::string_view word) {
  return "'" + shown(word) + "'";
}

bool take_requests(std::string_view& rest, ShortLimit& out, std::string& what) {
  const std::string_view word = next_word(rest);
  if (!is_number(word)) {
    what = "begins with " + quoted(word) + ", which is no whole number";
    return false;
  }
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), out.requests);
  if (error != std::errc{} || out.requests > kMaxUnits) {
    what = "asks for " + quoted(word) + ", more than " + std::to_string(kMaxUnits);
    return false;
  }
  return true;
}

bool take_period(std::string_view& rest, ShortLimit& out, std::string& what) {
  const std::string_view per = next_word(rest);
  if (per != "per") {
    what = per.empty() ? "ends before its period" : "has " + quoted(per) + " where 'per' belongs";
    return false;
  }
  std::string period(next_word(rest));
  if (is_number(period)) period.append(" ").append(next_word(rest));
  const auto parsed = parse_period(period);
  if (!parsed || parsed->unit == PeriodUnit::exact) {
    what = "has " + quoted(period) + ", which is no period";
    return false;
  }
  out.per = *parsed;
  return true;
}

bool take_sources(std::string_view rest, ShortLimit& out, std::string& what) {
  const std::string_view by = next_word(rest);
  if (by.empty()) return true;
  if (by != "by") {
    what = "goes on with " + quoted(by) + " where only 'by' may follow";
    return false;
  }
  for (bool more = true; more;) {
    const std::size_t comma = rest.find(',');
    std::string_view item = rest.substr(0, comma);
    const std::string_view source = next_word(item);
    if (source.empty() || !next_word(item).empty()) {
      what = source.empty() ? "names no source after 'by' or ','"
                            : "has two sources without a ',' between them";
      return false;
    }
    out.by.emplace_back(source);
    more = comma != rest.npos;
    if (more) rest.remove_prefix(comma + 1);
  }
  return true;
}

}  // namespace

std::optional<ShortLimit> parse_short_limit(std::string_view text, Problem& problem) {
  ShortLimit out;
  std::string what;
  if (take_requests(text, out, what) && take_period(text, out, what) &&
      take_sources(text, out, what))
    return out;
  problem = {std::move(what), std::string(kShortForm)};
  return std::nullopt;
}

}  // namespace weir::policy
