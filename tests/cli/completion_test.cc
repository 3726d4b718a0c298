#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "cli/command_line.h"
#include "program.h"

namespace weir::cli_tests {
namespace {

using ::testing::Contains;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

struct Completion : ::testing::Test {
  Completion() { folder.write("policy.yaml", ""); }

  std::string script(const char* shell) {
    const Outcome outcome = weir({"completion", shell});
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_EQ(outcome.err, "");
    folder.write(shell, outcome.out);
    return folder.path() + "/" + shell;
  }

  // What bash offers for the last of these words.
  std::vector<std::string> offered(const std::vector<std::string>& words) {
    std::string command = "source " + script("bash") + "; COMP_WORDS=(weir";
    for (const std::string& word : words) command += " '" + word + "'";
    command += "); COMP_CWORD=" + std::to_string(words.size()) +
               "; _weir; printf '%s\\n' \"${COMPREPLY[@]}\"";
    const Outcome outcome = run({"bash", "-c", command}, {.folder = folder.path()});
    EXPECT_EQ(outcome.err, "");
    return lines_of(outcome.out);
  }
  Folder folder;
};

TEST_F(Completion, OffersVerbsOptionsShellsAndFilesInBash) {
  if (!installed("bash")) GTEST_SKIP() << "bash is not installed";
  const auto verbs = offered({""});
  for (const cli::Grammar::Verb& verb : cli::grammar().verbs)
    EXPECT_THAT(verbs, Contains(verb.name));
  EXPECT_THAT(offered({"ch"}), UnorderedElementsAre("check"));
  EXPECT_THAT(offered({"--v"}), UnorderedElementsAre("--version"));
  EXPECT_THAT(offered({"check", "--co"}), UnorderedElementsAre("--cost"));
  EXPECT_THAT(offered({"lint", "--cos"}), UnorderedElementsAre("")) << "lint has no --cost";
  EXPECT_THAT(offered({"completion", ""}), UnorderedElementsAre("bash", "zsh", "fish"));
  EXPECT_THAT(offered({"lint", "pol"}), UnorderedElementsAre("policy.yaml"));
}

TEST_F(Completion, IsReadWithoutFaultByEachShellThatIsHere) {
  int read = 0;
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string path = script(shell);
    if (!installed(shell)) {
      std::cout << shell << " is not installed: its completion is not read here\n";
      continue;
    }
    const Outcome outcome = run({shell, "-n", path});
    EXPECT_EQ(outcome.exit_code, 0) << shell << ": " << outcome.err;
    ++read;
  }
  if (read == 0) GTEST_SKIP() << "no shell is installed";
}

TEST_F(Completion, KnowsEveryOptionInEveryShell) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string text = weir({"completion", shell}).out;
    for (const cli::Grammar::Verb& verb : cli::grammar().verbs) {
      for (const cli::Grammar::Option& option : verb.options) {
        const std::string name =
            std::string(shell) == "fish" ? "-l " + option.name.substr(2) : option.name;
        EXPECT_NE(text.find(name), std::string::npos) << shell << " " << verb.name << " " << name;
      }
    }
  }
}

}  // namespace
}  // namespace weir::cli_tests
