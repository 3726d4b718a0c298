#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "cli/command_line.h"
#include "program.h"

namespace weir::cli_tests {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;
using ::testing::UnorderedElementsAreArray;

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

std::vector<std::string> names_of(const cli::Grammar::Verb& verb) {
  std::vector<std::string> out;
  for (const cli::Grammar::Option& option : verb.options) out.push_back(option.name);
  return out;
}

TEST_F(Completion, OffersTheOptionsOfEachVerbInBash) {
  if (!installed("bash")) GTEST_SKIP() << "bash is not installed";
  for (const cli::Grammar::Verb& verb : cli::grammar().verbs) {
    ASSERT_FALSE(verb.options.empty()) << verb.name;
    EXPECT_THAT(offered({verb.name, "--"}), UnorderedElementsAreArray(names_of(verb))) << verb.name;
  }
}

// What the script says of one verb.
std::string part_of(const std::string& script, const std::string& shell, const std::string& verb) {
  if (shell == "fish") {
    std::string out;
    for (const std::string& line : lines_of(script)) {
      if (line.find("__fish_seen_subcommand_from " + verb + "'") != std::string::npos)
        out += line + "\n";
    }
    return out;
  }
  const std::size_t begin = script.find("\n    " + verb + ")");
  EXPECT_NE(begin, std::string::npos) << shell << " " << verb;
  return script.substr(begin, script.find(";;", begin) - begin);
}

TEST_F(Completion, KnowsEveryOptionOfEachVerbInEveryShell) {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const std::string text = weir({"completion", shell}).out;
    for (const cli::Grammar::Verb& verb : cli::grammar().verbs) {
      const std::string part = part_of(text, shell, verb.name);
      for (const std::string& name : names_of(verb)) {
        const std::string there = shell == "fish"  ? " -l " + name.substr(2) + " "
                                  : shell == "zsh" ? "'" + name + "["
                                                   : name;
        EXPECT_THAT(part, HasSubstr(there)) << shell << " " << verb.name;
      }
    }
  }
}

TEST_F(Completion, OffersTheWordsThatAValueMayBe) {
  const auto protects = {"security", "side_effects", "capacity", "revenue", "nothing"};
  if (installed("bash")) {
    EXPECT_THAT(offered({"serve", "--protects", ""}), UnorderedElementsAreArray(protects));
    EXPECT_THAT(offered({"serve", "--protects", "=", "sec"}), UnorderedElementsAre("security"));
    EXPECT_THAT(offered({"serve", "--protects", "="}), UnorderedElementsAreArray(protects));
    EXPECT_THAT(offered({"serve", "--tls", "g"}), UnorderedElementsAre("grpc"));
    EXPECT_THAT(offered({"bench", ""}), UnorderedElementsAre("rls"));
    EXPECT_THAT(offered({"proxy", "--scenario", "failover-"}), Contains("failover-11s"));
    EXPECT_THAT(offered({"serve", "--store", "pol"}), UnorderedElementsAre("policy.yaml"));
  }
  const std::string words = "security side_effects capacity revenue nothing";
  EXPECT_THAT(part_of(weir({"completion", "zsh"}).out, "zsh", "serve"),
              HasSubstr(":value:(" + words + ")'"));
  EXPECT_THAT(part_of(weir({"completion", "fish"}).out, "fish", "serve"),
              HasSubstr(" -l protects -x -a '" + words + "' -d "));
}

// An offer that the program then refuses would be worse than none.
TEST_F(Completion, OffersNoWordThatTheProgramRefuses) {
  // What else is wrong with each of them ends it at once.
  const std::map<std::string, std::vector<std::string>> calls = {
      {"bench", {"rls", "nowhere"}},
      {"drill",
       {"--target", "http://127.0.0.1:1/", "--proxy-store", "nowhere", "--limit", "5 per minute",
        "--key", "header:K"}},
      {"proxy", {"--upstream", "nowhere"}},
      {"serve", {"missing.yaml", "--tls-cert", "missing", "--tls-key", "missing"}}};
  int offers = 0;
  for (const cli::Grammar::Verb& verb : cli::grammar().verbs) {
    for (const cli::Grammar::Option& option : verb.options) {
      if (option.words.empty()) continue;
      const auto err_of = [&](const std::string& word) {
        std::vector<std::string> words = calls.at(verb.name);
        words.insert(words.begin(), verb.name);
        words.insert(words.end(), {option.name, word});
        const Outcome outcome = weir(words, {.folder = folder.path()});
        EXPECT_NE(outcome.exit_code, 0) << verb.name << " " << option.name << " " << word;
        return outcome.err;
      };
      EXPECT_THAT(err_of("nonsense"), HasSubstr(option.name));
      for (const std::string& word : option.words) {
        EXPECT_THAT(err_of(word), Not(HasSubstr(option.name + " "))) << word;
        EXPECT_THAT(err_of(word), Not(HasSubstr(option.name + ": "))) << word;
        ++offers;
      }
    }
  }
  EXPECT_GT(offers, 20);
}

}  // namespace
}  // namespace weir::cli_tests
