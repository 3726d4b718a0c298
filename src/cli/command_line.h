#pragma once

#include <span>
#include <string>

#include "cli/environment.h"
#include "cli/grammar.h"

namespace weir::cli {

// Runs `weir` with these words, the program's name left out, and returns its exit code.
//
// Guarantees:  answers go to environment.out, faults to environment.err, one line each; undecided
//              where the answer could not be written.
int run(std::span<const std::string> words, Environment& environment);

// The command line that run() understands.
Grammar grammar();

}  // namespace weir::cli
