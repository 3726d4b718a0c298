#pragma once

#include <string>
#include <string_view>

namespace weir {

// The text as one word of a POSIX shell: in single quotes, each quote of its own escaped.
std::string shell_word(std::string_view text);

}  // namespace weir
