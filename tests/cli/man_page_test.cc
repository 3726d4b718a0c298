#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cli/command_line.h"
#include "program.h"

namespace weir::cli_tests {
namespace {

const std::string kPage = WEIR_SOURCE_DIR "/docs/man/weir.1";

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(ManPage, NamesEveryVerbAndOption) {
  const std::string page = text_of(kPage);
  ASSERT_FALSE(page.empty());
  const auto expect_option = [&](const std::string& name) {
    // mdoc writes --cost as the flag "-cost".
    EXPECT_NE(page.find("Fl " + name.substr(1)), std::string::npos) << name;
  };
  const cli::Grammar grammar = cli::grammar();
  for (const cli::Grammar::Option& option : grammar.options) expect_option(option.name);
  for (const cli::Grammar::Verb& verb : grammar.verbs) {
    EXPECT_NE(page.find(".Cm " + verb.name + "\n"), std::string::npos) << verb.name;
    for (const cli::Grammar::Option& option : verb.options) expect_option(option.name);
  }
}

TEST(ManPage, NamesTheSameOptionsAsTheReference) {
  const std::string page = text_of(WEIR_SOURCE_DIR "/docs/reference/cli.md");
  for (const cli::Grammar::Verb& verb : cli::grammar().verbs) {
    EXPECT_NE(page.find("weir " + verb.name), std::string::npos) << verb.name;
    for (const cli::Grammar::Option& option : verb.options) {
      if (option.name == "--help") continue;
      EXPECT_NE(page.find("`" + option.name), std::string::npos) << option.name;
    }
  }
}

TEST(ManPage, HasNoFaultThatItsReadersKnow) {
  if (!installed("mandoc")) GTEST_SKIP() << "mandoc is not installed (Debian package mandoc)";
  const Outcome outcome = run({"mandoc", "-Tlint", "-Wstyle", kPage});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
}

}  // namespace
}  // namespace weir::cli_tests
