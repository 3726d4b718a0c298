#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "cli/command_line.h"

namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

// https://no-color.org: any value that is not empty means no.
bool wants_colours() {
  const auto no = variable("NO_COLOR");
  const auto terminal = variable("TERM");
  return isatty(STDOUT_FILENO) != 0 && (!no || no->empty()) && terminal && *terminal != "dumb";
}

// Where a standard stream was closed, the next socket would get its number, and log lines would go
// to a client. /dev/null takes the place instead, opened the wrong way round: reading and writing
// fail as they do on a closed stream.
void hold_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    (void)::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_streams();
  std::ios::sync_with_stdio(false);
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  weir::cli::Environment environment{
      .out = std::cout, .err = std::cerr, .colours = wants_colours(), .variable = variable};
  return weir::cli::run(words, environment);
}
