#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace weir::server::http {

struct Field {
  std::string_view name;
  std::string_view value;  // without the blanks around it
};

// One whole request. Views into the connection's buffer, valid while it is being handled.
struct Request {
  std::string_view method;
  std::string_view target;  // as received, without the scheme and authority of an absolute one
  std::span<const Field> fields;
  std::string_view body;  // decoded
  bool http11 = true;
  bool keep_alive = true;

  // The target up to its query.
  std::string_view path() const noexcept { return target.substr(0, target.find('?')); }
  // What follows the '?'; empty without one.
  std::string_view query() const noexcept;
  // The value of the first field of that name, in any case; null data() without one.
  std::string_view field(std::string_view name) const noexcept;
  std::size_t count(std::string_view name) const noexcept;
};

// Whether two field names are the same: ASCII letters in any case.
bool same_name(std::string_view one, std::string_view other) noexcept;

}  // namespace weir::server::http
