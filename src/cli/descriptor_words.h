#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "drill/load/rls_ask.h"

namespace weir::cli {

// One descriptor as people write it: "user=ada" or "path=/login,remote_address=192.0.2.7". A value
// holds no comma. Absent where a part is no KEY=VALUE.
std::optional<drill::DescriptorTexts::value_type> read_descriptor(std::string_view word);

// "user=ada,path=/x", as read_descriptor() takes it.
std::string descriptor_word(const drill::DescriptorTexts::value_type& entries);

// A request: its domain, then its descriptors, with blanks between.
struct RequestWords {
  std::string domain;
  drill::DescriptorTexts descriptors;
};
// Absent where there is no descriptor, or one cannot be read.
std::optional<RequestWords> read_request(std::string_view text);

}  // namespace weir::cli
