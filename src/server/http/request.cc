#include "server/http/request.h"

#include <algorithm>

namespace weir::server::http {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

}  // namespace

bool same_name(std::string_view one, std::string_view other) noexcept {
  return one.size() == other.size() &&
         std::equal(one.begin(), one.end(), other.begin(),
                    [](char a, char b) { return lower(a) == lower(b); });
}

std::string_view Request::query() const noexcept {
  const std::size_t mark = target.find('?');
  return mark == std::string_view::npos ? std::string_view() : target.substr(mark + 1);
}

std::string_view Request::field(std::string_view name) const noexcept {
  for (const Field& each : fields) {
    if (same_name(each.name, name)) return each.value;
  }
  return {};
}

std::size_t Request::count(std::string_view name) const noexcept {
  return static_cast<std::size_t>(
      std::count_if(fields.begin(), fields.end(),
                    [name](const Field& each) { return same_name(each.name, name); }));
}

}  // namespace weir::server::http
