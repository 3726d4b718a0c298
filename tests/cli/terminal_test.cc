#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program.h"

namespace weir::cli_tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kShown =
    "routes:\n  api: {limits: [5 per minute], protects: nothing, ceiling: 5 per second}\n";

TEST(Terminal, GetsColoursAndNothingElseDoes) {
  Folder folder;
  folder.write("weir.yaml", kShown);
  const std::vector<std::string> words = {WEIR_PROGRAM, "check", "weir.yaml", "api"};
  const auto on_terminal = [&](std::map<std::string, std::string> variables) {
    return run_on_terminal(words, {.folder = folder.path(), .variables = std::move(variables)}).out;
  };
  EXPECT_THAT(on_terminal({{"TERM", "xterm"}}), HasSubstr("\x1b[32mallowed\x1b[0m"));
  EXPECT_THAT(on_terminal({{"TERM", "xterm"}, {"NO_COLOR", "1"}}), Not(HasSubstr("\x1b")));
  EXPECT_THAT(on_terminal({{"TERM", "dumb"}}), Not(HasSubstr("\x1b")));
  EXPECT_THAT(run(words, {.folder = folder.path(), .variables = {{"TERM", "xterm"}}}).out,
              Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace weir::cli_tests
