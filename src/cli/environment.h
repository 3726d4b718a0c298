#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::cli {

// What the program says about how it went.
enum class ExitCode : int {
  as_asked = 0,
  answered_no = 1,  // limited; lint found faults
  usage = 2,        // the command line or the policy file is wrong
  undecided = 3,    // no answer could be had
};

// Of two answers the one that speaks for both: a wrong word before limited or faults, these before
// undecided, undecided before as asked.
ExitCode worse(ExitCode a, ExitCode b);

// The world that the command line runs in; main() gives it the real one.
struct Environment {
  std::ostream& out;
  std::ostream& err;
  bool colours = false;  // `out` is a terminal that wants them
  std::function<std::optional<std::string>(const char* name)> variable;
  // What fail() shows otherwise than it was typed: URLs with credentials, and what stands for them.
  std::vector<std::pair<std::string, std::string>> masked{};
  // The answer goes to `out`, and one that cannot be written is none. A server answers elsewhere.
  bool answers_on_out = true;
};

// Says on `err`, in one line, what went wrong and the way out, and returns `code`. Of a message of
// several lines the first is said, and how many there are.
ExitCode fail(Environment& environment, ExitCode code, std::string_view message);

}  // namespace weir::cli
