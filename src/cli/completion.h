#pragma once

#include <string>
#include <string_view>

#include "cli/grammar.h"

namespace weir::cli {

// Names that completion_script() knows.
inline constexpr std::string_view kShells[] = {"bash", "zsh", "fish"};

// The script that a shell reads to complete `weir …`; empty for another shell.
std::string completion_script(std::string_view shell, const Grammar& grammar);

}  // namespace weir::cli
