#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
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

TEST(ManPage, NamesTheOptionsOfEachVerbWhereItSaysHowItIsCalled) {
  std::string page = text_of(kPage);
  page.resize(page.find(".Sh DESCRIPTION"));
  for (const cli::Grammar::Verb& verb : cli::grammar().verbs) {
    std::string calls;  // a verb may be called in several ways
    const std::string begin = ".Nm\n.Cm " + verb.name + "\n";
    for (std::size_t at = page.find(begin); at != std::string::npos; at = page.find(begin, at + 1))
      calls += page.substr(at, page.find("\n.Nm", at) + 1 - at);
    for (const cli::Grammar::Option& option : verb.options) {
      if (option.name == "--help") continue;
      const std::string flag = "Fl " + option.name.substr(1);
      const bool named = calls.find(flag + " ") != std::string::npos ||
                         calls.find(flag + "\n") != std::string::npos;
      EXPECT_TRUE(named) << verb.name << " " << option.name;
    }
  }
}

// From a line to the next that begins as it does.
std::string part_of(const std::string& page, const std::string& begin, const std::string& end) {
  const std::size_t at = page.find(begin);
  if (at == std::string::npos) return "";
  return page.substr(at, page.find(end, at + begin.size()) - at);
}

TEST(ManPage, NamesTheSameOptionsAsTheReference) {
  const std::string page = text_of(WEIR_SOURCE_DIR "/docs/reference/cli.md");
  for (const cli::Grammar::Verb& verb : cli::grammar().verbs) {
    const std::string part = part_of(page, "\n## weir " + verb.name, "\n## ");
    ASSERT_FALSE(part.empty()) << verb.name;
    for (const cli::Grammar::Option& option : verb.options) {
      if (option.name == "--help") continue;
      const bool named = part.find("`" + option.name + "`") != std::string::npos ||
                         part.find("`" + option.name + " ") != std::string::npos;
      EXPECT_TRUE(named) << "weir " << verb.name << " " << option.name;
      for (const std::string& word : option.words) {
        if (option.name == "--scenario") continue;  // the drill's own page names them
        EXPECT_NE(part.find("`" + word + "`"), std::string::npos) << option.name << " " << word;
      }
    }
  }
}

TEST(ManPage, NamesNoOptionThatIsGone) {
  std::set<std::string> known;
  const cli::Grammar grammar = cli::grammar();
  for (const cli::Grammar::Option& option : grammar.options) known.insert(option.name);
  for (const cli::Grammar::Verb& verb : grammar.verbs)
    for (const cli::Grammar::Option& option : verb.options) known.insert(option.name);
  const auto check = [&](const std::string& file, const std::string& pattern) {
    const std::string page = text_of(WEIR_SOURCE_DIR "/docs/" + file);
    const std::regex named(pattern);
    int found = 0;
    for (std::sregex_iterator it(page.begin(), page.end(), named), end; it != end; ++it, ++found)
      EXPECT_TRUE(known.contains("--" + (*it)[1].str())) << file << ": --" << (*it)[1];
    EXPECT_GT(found, 40) << file;
  };
  check("man/weir.1", "Fl -([a-z-]+)");
  check("reference/cli.md", "\\| `--([a-z-]+)");
}

TEST(ManPage, HasNoFaultThatItsReadersKnow) {
  if (!installed("mandoc")) GTEST_SKIP() << "mandoc is not installed (Debian package mandoc)";
  const Outcome outcome = run({"mandoc", "-Tlint", "-Wstyle", kPage});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
}

}  // namespace
}  // namespace weir::cli_tests
