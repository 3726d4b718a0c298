#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "program.h"
#include "weir/version.h"

namespace weir::cli_tests {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kChecked = R"(
inputs: [user]
routes:
  api:
    limits:
      - 5 per minute by user
      - 1000 per hour by ip
    protects: capacity
    ceiling: 50 per second
  strict:
    limits: [{requests: 5, per: minute, by: [user], strict: true}]
    protects: capacity
    ceiling: 50 per second
  closed:
    limits: [{requests: 0, per: minute, by: [user], name: nobody}]
    protects: security
  trial:
    limits: [{requests: 1, per: minute, by: [user], shadow: true}]
    protects: nothing
)";

struct CommandLine : ::testing::Test {
  CommandLine() { folder.write("weir.yaml", kChecked); }
  Outcome asked(std::vector<std::string> words, std::map<std::string, std::string> variables = {}) {
    return weir(std::move(words), {.folder = folder.path(), .variables = std::move(variables)});
  }
  Folder folder;
};

struct Case {
  std::vector<std::string> words;
  int exit_code;
  std::string out;
  std::string err;
};

TEST_F(CommandLine, SaysWhatIsWrongAboutALoad) {
  const auto bench = [this](std::vector<std::string> words) {
    words.insert(words.begin(), "bench");
    return asked(std::move(words));
  };
  EXPECT_THAT(bench({"http", "127.0.0.1:1"}).err, HasSubstr("'http' is nothing to load"));
  EXPECT_THAT(bench({"rls", "127.0.0.1:1", "--rate", "0"}).err, HasSubstr("--rate is '0'"));
  EXPECT_THAT(bench({"rls", "127.0.0.1:1", "--distribution", "normal"}).err,
              HasSubstr("uniform, zipf or hot"));
  EXPECT_THAT(bench({"rls", "127.0.0.1:1", "--duration", "5"}).err, HasSubstr("--duration is '5'"));
  const Outcome nobody = bench({"rls", "127.0.0.1:1"});
  EXPECT_EQ(nobody.exit_code, 3);
  EXPECT_THAT(nobody.err, HasSubstr("127.0.0.1:1: cannot connect"));
  EXPECT_EQ(bench({"rls", "nowhere"}).exit_code, 2);
}

TEST_F(CommandLine, SaysWhatIsWrongAboutARateLimitService) {
  EXPECT_THAT(asked({"check", "--rls", "127.0.0.1:1", "shop", "user"}).err,
              HasSubstr("'user' is no descriptor"));
  EXPECT_THAT(asked({"check", "--rls", "127.0.0.1:1", "shop", "a=b", "--times", "2"}).err,
              HasSubstr("--times and --store do not go with --rls"));
  EXPECT_EQ(asked({"check", "--rls", "127.0.0.1:1", "shop", "a=b"}).exit_code, 3);
  EXPECT_THAT(asked({"check", "weir.yaml"}).err, HasSubstr("ROUTE is required"));
  EXPECT_THAT(asked({"serve", "weir.yaml", "--protects", "all"}).err,
              HasSubstr("--protects is 'all'"));
}

TEST_F(CommandLine, SaysWhatIsWrongAboutTls) {
  const auto serve = [this](std::vector<std::string> words) {
    words.insert(words.begin(), {"serve", "weir.yaml"});
    return asked(std::move(words));
  };
  const auto half = serve({"--tls-cert", "cert.pem"});
  EXPECT_EQ(half.exit_code, 2);
  EXPECT_THAT(half.err, HasSubstr("--tls-cert and --tls-key go together"));
  const auto none = serve({"--tls", "grpc"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("--tls-cert and --tls-key"));
  const auto odd = serve({"--tls-cert", "c", "--tls-key", "k", "--tls", "grpc,smtp"});
  EXPECT_EQ(odd.exit_code, 2);
  EXPECT_THAT(odd.err, HasSubstr("'grpc,smtp'; it must be one or more of http, grpc and admin"));
}

TEST_F(CommandLine, AnswersAsTheTableSays) {
  const std::vector<Case> cases = {
      {{"--version"}, 0, "weir " + std::string(kVersion) + "\n", ""},
      {{"--version", "--json"}, 0, "{\"version\":\"" + std::string(kVersion) + "\"}\n", ""},
      {{"check", "weir.yaml", "api", "user=ada", "ip=192.0.2.7"},
       0,
       "allowed  api  4 of 5 left (5 per minute by user), 999 of 1000 left (1000 per hour by ip)\n",
       ""},
      {{"check", "weir.yaml", "api", "user=ada", "--times", "6", "ip=192.0.2.7"},
       1,
       "allowed  api  4 of 5 left (5 per minute by user), 999 of 1000 left (1000 per hour by ip)\n"
       "allowed  api  3 of 5 left (5 per minute by user), 998 of 1000 left (1000 per hour by ip)\n"
       "allowed  api  2 of 5 left (5 per minute by user), 997 of 1000 left (1000 per hour by ip)\n"
       "allowed  api  1 of 5 left (5 per minute by user), 996 of 1000 left (1000 per hour by ip)\n"
       "allowed  api  0 of 5 left (5 per minute by user), 995 of 1000 left (1000 per hour by ip)\n"
       "limited  api  retry after 12 s: 0 of 5 left (5 per minute by user), "
       "995 of 1000 left (1000 per hour by ip)\n",
       ""},
      {{"check", "weir.yaml", "api", "user=ada", "--cost", "0"},
       0,
       "allowed  api  5 of 5 left (5 per minute by user), 1000 of 1000 left (1000 per hour by "
       "ip)\n",
       ""},
      {{"check", "weir.yaml", "api", "user=ada", "--cost", "6"},
       1,
       "limited  api  the cost can never fit: 5 of 5 left (5 per minute by user), "
       "1000 of 1000 left (1000 per hour by ip)\n",
       ""},
      {{"check", "weir.yaml", "closed", "user=ada"},
       1,
       "limited  closed  the limit is 0: 0 of 0 left (nobody)\n",
       ""},
      {{"check", "weir.yaml", "trial", "user=ada", "--times", "2"},
       0,
       "allowed  trial  0 of 1 left (1 per minute by user, shadow)\n"
       "allowed  trial  0 of 1 left (1 per minute by user, shadow: would deny)\n",
       ""},
      {{"check", "weir.yaml", "api", "user=ada", "--json"},
       0,
       R"({"verdict":"allowed","rung":"store","reason":"within_limit","route":"api","rules":[)"
       R"({"rule":"5 per minute by user","limit":5,"period_ms":60000,"remaining":4,)"
       R"("reset_after_ms":12000},)"
       R"({"rule":"1000 per hour by ip","limit":1000,"period_ms":3600000,"remaining":999,)"
       R"("reset_after_ms":3600}]})"
       "\n",
       ""},
      // What is wrong is said on stderr, in one line, with the way out.
      {{}, 2, "", "weir: no verb is given; weir --help lists them\n"},
      {{"check", "weir.yaml", "nowhere", "user=ada"},
       2,
       "",
       "weir: the policy has no route 'nowhere'; it has: api, closed, strict, trial\n"},
      {{"check", "weir.yaml", "api", "usr=ada"},
       2,
       "",
       "weir: no rule counts by 'usr'; did you mean 'user'?; the policy knows: ip, user\n"},
      {{"check", "weir.yaml", "api", "ada"},
       2,
       "",
       "weir: 'ada' is not name=value, as in ip=192.0.2.7\n"},
      {{"check", "weir.yaml", "api", "user=ada", "user=eve"},
       2,
       "",
       "weir: 'user' is given twice; give it once\n"},
      {{"check", "weir.yaml", "api", "--cost", "-1"},
       2,
       "",
       "weir: --cost is '-1'; it must be a whole number from 0 to 4294967295\n"},
      {{"check", "weir.yaml", "api", "--cost", "0x10"},
       2,
       "",
       "weir: --cost is '0x10'; it must be a whole number from 0 to 4294967295\n"},
      {{"check", "weir.yaml", "api", "--cost", "4294967296"},
       2,
       "",
       "weir: --cost is '4294967296'; it must be a whole number from 0 to 4294967295\n"},
      {{"check", "weir.yaml", "api", "--times", "0"},
       2,
       "",
       "weir: --times is '0'; it must be a whole number from 1 to 1000000\n"},
      {{"check", "missing.yaml", "api"},
       2,
       "",
       "weir: missing.yaml: cannot be read; allowed: a policy file that is there and readable\n"},
      {{"lint", "missing.yaml"},
       2,
       "",
       "weir: missing.yaml cannot be read; name a policy file that is there and readable\n"},
      {{"lint", "."}, 0, ".: no faults\n", ""},
      {{"lint", "weir.yaml"}, 0, "weir.yaml: no faults\n", ""},
      {{"lint", "weir.yaml", "--json"},
       0,
       R"({"file":"weir.yaml","faults":0,"warnings":0,"store_asked":false})"
       "\n",
       ""},
      {{"check", "weir.yaml", "api", "user=ada", "ip=localhost"},
       2,
       "",
       "weir: ip is 'localhost', which is no address, as 192.0.2.7 and 2001:db8::1 are\n"},
      {{"explain", "weir.yaml", "nowhere"},
       2,
       "",
       "weir: the policy has no route 'nowhere'; it has: api, closed, strict, trial\n"},
      {{"explain", "weir.yaml", "--request", "shop user=ada"},
       2,
       "",
       "weir: the policy has no domain 'shop'\n"},
      {{"explain", "weir.yaml", "--workers", "0"},
       2,
       "",
       "weir: --workers is '0'; it must be a whole number from 1 to 1000000\n"},
      {{"explain", "weir.yaml", "--outage", "11"},
       2,
       "",
       "weir: --outage is '11'; it must be a whole number with a unit: ns, us, ms, s, m "
       "(minutes), h or d, above 0 and at most 365d\n"},
      {{"explain", "weir.yaml", "--outage", "9223372036s"},
       2,
       "",
       "weir: --outage is '9223372036s'; it must be a whole number with a unit: ns, us, ms, s, m "
       "(minutes), h or d, above 0 and at most 365d\n"},
      {{"completion", "tcsh"},
       2,
       "",
       "weir: there is no completion for 'tcsh'; there is for bash, zsh and fish\n"},
      {{"serve", "weir.yaml", "--lanes", "0"},
       2,
       "",
       "weir: --lanes is '0'; it must be a whole number from 1 to 256\n"},
      {{"serve", "weir.yaml", "--drain-delay", "10"},
       2,
       "",
       "weir: --drain-delay is '10'; it must be a whole number with a unit: ns, us, ms, s, m "
       "(minutes), h or d\n"},
  };
  for (const Case& c : cases) {
    const Outcome outcome = asked(c.words);
    std::string line = "weir";
    for (const std::string& word : c.words) line += " " + word;
    EXPECT_EQ(outcome.exit_code, c.exit_code) << line;
    EXPECT_EQ(outcome.out, c.out) << line;
    EXPECT_EQ(outcome.err, c.err) << line;
  }
}

TEST_F(CommandLine, NamesTheVerbOrOptionThatWasMeant) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> near = {
      {{"chekc", "weir.yaml"}, "; did you mean 'check'?; see weir --help\n"},
      {{"check", "weir.yaml", "api", "--cots", "1"},
       "--cots; did you mean '--cost'?; see weir check --help\n"},
      {{"lint", "weir.yaml", "--conect"},
       "--conect; did you mean '--connect'?; see weir lint --help\n"},
      {{"serve", "weir.yaml", "--htpt=off"},
       "--htpt=off; did you mean '--http'?; see weir serve --help\n"},
      {{"lint", "weir.yaml", "--frobnicate"}, "--frobnicate; see weir lint --help\n"},
  };
  for (const auto& [words, said] : near) EXPECT_THAT(asked(words).err, HasSubstr(said));
}

TEST_F(CommandLine, SaysAWrongWordInOneLineWithTheWayOut) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{"chekc", "weir.yaml"}, "weir --help"},
      {{"check"}, "weir check --help"},
      {{"check", "weir.yaml", "api", "--cots", "1"}, "weir check --help"},
      {{"check", "weir.yaml", "api", "--cost"}, "weir check --help"},
      {{"lint"}, "weir lint --help"},
      {{"serve", "a", "b"}, "weir serve --help"},
      {{"completion"}, "weir completion --help"},
      {{"explain"}, "weir explain --help"},
      {{"serve", "weir.yaml", "--http", ""}, "weir serve --help"},
      {{"check", "weir.yaml", "api", "--store", ""}, "weir check --help"},
  };
  for (const auto& [words, way_out] : wrong) {
    const Outcome outcome = asked(words);
    EXPECT_EQ(outcome.exit_code, 2) << words[0];
    EXPECT_EQ(outcome.out, "") << words[0];
    EXPECT_THAT(outcome.err, StartsWith("weir: "));
    EXPECT_THAT(outcome.err, HasSubstr("; see " + way_out + "\n"));
    EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1) << outcome.err;
  }
}

TEST_F(CommandLine, HelpsOnStandardOutput) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--help"},
                                                {"-h"},
                                                {"check", "--help"},
                                                {"check", "-h"},
                                                {"explain", "--help"},
                                                {"lint", "--help"},
                                                {"serve", "--help"},
                                                {"completion", "--help"}}) {
    const Outcome outcome = asked(words);
    EXPECT_EQ(outcome.exit_code, 0) << words[0];
    EXPECT_THAT(outcome.out,
                HasSubstr(words.size() == 2 ? "Usage: weir " + words[0] : "Usage: weir"))
        << words[0];
    EXPECT_EQ(outcome.err, "") << words[0];
  }
}

TEST_F(CommandLine, SaysOneJsonObjectALine) {
  const Outcome outcome =
      asked({"check", "weir.yaml", "api", "user=ada", "--times", "7", "--json"});
  EXPECT_EQ(outcome.exit_code, 1);
  std::istringstream lines(outcome.out);
  int allowed = 0;
  int limited = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto decision = nlohmann::json::parse(line, nullptr, false);
    ASSERT_FALSE(decision.is_discarded()) << line;
    allowed += decision["verdict"] == "allowed";
    if (decision["verdict"] != "limited") continue;
    ++limited;
    EXPECT_EQ(decision["reason"], "over_limit");
    EXPECT_GT(decision["retry_after_ms"], 0);
    EXPECT_LE(decision["retry_after_ms"], 12000);
    EXPECT_EQ(decision["rules"][0]["fits"], false);
    EXPECT_EQ(decision["rules"][0]["remaining"], 0);
    EXPECT_FALSE(decision["rules"][1].contains("fits")) << "the other rule had room";
  }
  EXPECT_EQ(allowed, 5);
  EXPECT_EQ(limited, 2);
}

TEST_F(CommandLine, ExplainsEveryFailureOfAStore) {
  const Outcome text = asked({"explain", "--errors"});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_THAT(text.out, StartsWith("what the store says             class         what follows"));
  EXPECT_THAT(text.out, HasSubstr("\nREADONLY                        unavailable   "
                                  "policy, resolve again    yes   "));
  EXPECT_THAT(text.out, HasSubstr("\n(anything else)                 unavailable   policy "));
  const Outcome json = asked({"explain", "--errors", "--json"});
  EXPECT_EQ(json.exit_code, 0);
  std::istringstream lines(json.out);
  std::size_t rows = 0;
  for (std::string line; std::getline(lines, line); ++rows) {
    const auto row = nlohmann::json::parse(line);
    EXPECT_TRUE(row["says"].is_string() && row["votes"].is_boolean()) << line;
    for (const char* member : {"class", "follows", "carried_out", "meaning"}) {
      EXPECT_FALSE(std::string(row[member]).empty()) << line;
    }
  }
  EXPECT_EQ(rows + 1, std::count(text.out.begin(), text.out.end(), '\n'));
  EXPECT_EQ(asked({"explain", "weir.yaml", "--errors"}).exit_code, 2);
  EXPECT_THAT(asked({"explain"}).err, HasSubstr("POLICY is required"));
}

TEST_F(CommandLine, TellsWhereAValueIsMissing) {
  const Outcome outcome = asked({"check", "weir.yaml", "strict"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.out,
            "refused  strict  no value of user that can be counted, which 5 per minute by user "
            "needs\n");
}

TEST_F(CommandLine, TakesAnyBytesAsAValue) {
  const Outcome outcome =
      asked({"check", "weir.yaml", "api", "user=a=b \xff\n\x01", "ip=192.0.2.7", "--json"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(nlohmann::json::accept(outcome.out)) << outcome.out;
  EXPECT_EQ(outcome.out.find("a=b"), std::string::npos) << "values are never repeated";
}

// A URL without its '@', or in another's place, was said whole.
TEST_F(CommandLine, RepeatsNoPassword) {
  const std::string url = "redis://:secret@127.0.0.1:1";
  const std::string cut = "redis://:secret";
  folder.write("url.yaml", "store: '" + cut + "'\nroutes: {r: {limits: [], protects: nothing}}\n");
  folder.write("fallback.yaml", "store: {url: 'redis://h', fallback: '" + cut +
                                    "'}\nroutes: {r: {limits: [], protects: nothing}}\n");
  const std::vector<std::vector<std::string>> all = {
      {"serve", "weir.yaml", "--store", cut},
      {"serve", url},
      {"serve", "weir.yaml", url},
      {"serve", "weir.yaml", "--admin", url},
      {"serve", "weir.yaml", "--protects=" + url},
      {"check", url, "api"},
      {"check", "weir.yaml", "api", url},
      {"check", "weir.yaml", url},
      {"check", "weir.yaml", "api", "user=ada", "--store", cut},
      {"check", "--rls", url, "shop", "user=ada"},
      {"compare", "--rls", url, "--request", "shop user=ada"},
      {"explain", "weir.yaml", "--store", cut},
      {"explain", url},
      {"lint", url, "weir.yaml"},
      {"lint", "weir.yaml", "--connect", "--store", cut},
      {"lint", "weir.yaml", "--connect", "--store", url},
      {"lint", "url.yaml", "fallback.yaml"},
      {"lint", "url.yaml", "fallback.yaml", "--json"},
      {"explain", "url.yaml"},
      {"journal", "status", ".", "--ledger", "postgres:ada:secret@h"},
      {"journal", "status", url},
      {"drill", "weir.yaml", url},
      {"drill", "weir.yaml", "--store", cut},
      {"proxy", "--upstream", url},
      {"bench", "rls", url},
      {url},
  };
  for (const auto& words : all) {
    const Outcome outcome = asked(words);
    std::string line = "weir";
    for (const std::string& word : words) line += " " + word;
    EXPECT_NE(outcome.exit_code, 0) << line;
    EXPECT_THAT(outcome.out + outcome.err, Not(HasSubstr("secret"))) << line;
  }
  EXPECT_THAT(asked({"check", "weir.yaml", "api"}, {{"WEIR_STORE", cut}}).err,
              HasSubstr("the store 'redis://***' has an empty or impossible host name"));
  EXPECT_THAT(asked({"explain", "weir.yaml", "--store", url}).out,
              StartsWith("store redis://***@127.0.0.1:1, 1 worker\n"));
}

TEST_F(CommandLine, SaysHowADomainIsAsked) {
  folder.write("shop.yaml",
               "domain: shop\ndescriptors: [{key: user, rate_limit: {unit: day, "
               "requests_per_unit: 5}}]\n");
  const Outcome outcome = asked({"check", "shop.yaml", "shop", "user=ada"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(
      outcome.err,
      "weir: 'shop' is a domain, of which a server is asked: weir serve, then weir check --rls "
      "ADDR shop KEY=VALUE\n");
}

TEST_F(CommandLine, SaysThatTheStoreIsAwayWhereThatIsWhyItRefuses) {
  const std::vector<std::string> words = {"check", "weir.yaml", "api", "user=ada"};
  const Outcome away = asked(words, {{"WEIR_STORE", "redis://:secret@127.0.0.1:1"}});
  EXPECT_EQ(away.exit_code, 3);
  EXPECT_THAT(away.out, StartsWith("refused  api  "));
  EXPECT_THAT(away.err, StartsWith("weir: store redis://***@127.0.0.1:1: nothing listens there; "));
}

TEST_F(CommandLine, CannotServeAtAnAddressThatIsNotToBeHad) {
  const auto serve = [this](const std::string& address) {
    return asked({"serve", "weir.yaml", "--http", address, "--grpc", "off", "--admin", "off"});
  };
  folder.write("file", "");
  for (const auto& [address, why] : std::vector<std::pair<std::string, std::string>>{
           {"192.0.2.1:0", "no interface has this address"},
           {"unix:file", "the file exists and is not a socket"},
           {"unix:missing/socket", "cannot listen: No such file or directory"},
           {"host-that.invalid:80", "no such host"}}) {
    const Outcome outcome = serve(address);
    EXPECT_EQ(outcome.exit_code, 3) << address << ": " << outcome.err;
    EXPECT_THAT(outcome.err, StartsWith("weir: --http " + address + ": " + why));
  }
  for (const std::string text : {"127.0.0.1", "127.0.0.1:65536", "unix:", ":1", "http://h:1"}) {
    const Outcome outcome = serve(text);
    EXPECT_EQ(outcome.exit_code, 2) << text << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("allowed: HOST:PORT, [IPV6]:PORT, unix:PATH or off"));
  }
}

TEST_F(CommandLine, TakesItsStoreFromTheOptionBeforeTheVariable) {
  const std::vector<std::string> words = {"check", "weir.yaml", "api", "user=ada"};
  EXPECT_EQ(asked(words, {{"WEIR_STORE", "memory:"}}).exit_code, 0);
  EXPECT_EQ(asked(words, {{"WEIR_STORE", ""}}).exit_code, 0);
  const Outcome wrong = asked(words, {{"WEIR_STORE", "nonsense://x"}});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, StartsWith("weir: WEIR_STORE: the store 'nonsense://x' is no store"));
  std::vector<std::string> with_option = words;
  with_option.insert(with_option.end(), {"--store", "memory:"});
  EXPECT_EQ(asked(with_option, {{"WEIR_STORE", "nonsense://x"}}).exit_code, 0);
}

// Who set the variable once looks for the fault in the file, unless it is named.
TEST_F(CommandLine, NamesWhoNamedAStoreThatIsNone) {
  const std::vector<std::vector<std::string>> verbs = {
      {"check", "weir.yaml", "api", "user=ada"},
      {"explain", "weir.yaml"},
      {"serve", "weir.yaml", "--http", "off", "--grpc", "off", "--admin", "127.0.0.1:0"},
      {"lint", "weir.yaml", "--connect"},
  };
  for (const auto& words : verbs) {
    const bool lint = words.front() == "lint";
    const Outcome variable = asked(words, {{"WEIR_STORE", "garbage"}});
    EXPECT_EQ(variable.exit_code, lint ? 1 : 2) << words.front();
    EXPECT_THAT(lint ? variable.out : variable.err,
                HasSubstr(": WEIR_STORE: the store 'garbage' is no store that Weir knows"))
        << words.front();
    std::vector<std::string> with_option = words;
    with_option.insert(with_option.end(), {"--store", "rubbish"});
    const Outcome option = asked(with_option, {{"WEIR_STORE", "garbage"}});
    EXPECT_EQ(option.exit_code, lint ? 1 : 2) << words.front();
    EXPECT_THAT(lint ? option.out : option.err,
                HasSubstr(": --store: the store 'rubbish' is no store that Weir knows"))
        << words.front();
  }
  const Outcome json = asked({"lint", "weir.yaml", "--json"}, {{"WEIR_STORE", "garbage"}});
  EXPECT_THAT(json.out, HasSubstr("\"problem\":\"WEIR_STORE: the store 'garbage' is no"));
  EXPECT_THAT(json.out, HasSubstr("\"faults\":1,"));
}

TEST_F(CommandLine, SaysWhenItsAnswerCannotBeWritten) {
  const Outcome outcome = weir({"check", "weir.yaml", "api", "user=ada"},
                               {.folder = folder.path(), .out_file = "/dev/full"});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.err, StartsWith("weir: the answer could not be written"));
}

TEST_F(CommandLine, ReadsAPolicyFromAPipe) {
  const std::string program = WEIR_PROGRAM;
  for (const char* verb : {" lint /dev/stdin", " check /dev/stdin api user=ada"}) {
    const Outcome outcome =
        run({"/bin/sh", "-c", "cat weir.yaml | " + program + verb}, {.folder = folder.path()});
    EXPECT_EQ(outcome.exit_code, 0) << verb << outcome.out << outcome.err;
  }
}

TEST_F(CommandLine, ShowsControlBytesInAFaultAndDoesNotSendThem) {
  const Outcome outcome = asked({"check", "weir.yaml", "\x1b[31mapi\x7f", "user=ada"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("'\\x1b[31mapi\\x7f'"));
}

TEST_F(CommandLine, GivesNoSocketTheNumberOfAClosedStream) {
  // What stands at 0 and 2 once it serves, and whether a closed 1 still counts as unwritable.
  const std::string script = std::string(WEIR_PROGRAM) +
                             " serve weir.yaml --http 127.0.0.1:0 --grpc off --admin off"
                             " --drain-delay 0s <&- >ready 2>&- & pid=$!\n"
                             "i=0; until [ -s ready ] || [ $i = 600 ]; do sleep 0.05; "
                             "i=$((i+1)); done\n"
                             "readlink /proc/$pid/fd/0 /proc/$pid/fd/2; kill $pid; wait $pid";
  const Outcome served = run({"/bin/sh", "-c", script}, {.folder = folder.path()});
  EXPECT_EQ(served.exit_code, 0) << served.err;
  EXPECT_EQ(served.out, "/dev/null\n/dev/null\n");

  // To nobody, it serves and drains all the same.
  const std::string mute = std::string(WEIR_PROGRAM) +
                           " serve weir.yaml --http 127.0.0.1:0 --grpc off --admin off"
                           " --drain-delay 0s >&- 2>log & pid=$!\n"
                           "i=0; until grep -q event=ready log || [ $i = 600 ]; do sleep 0.05; "
                           "i=$((i+1)); done\n"
                           "kill $pid; wait $pid";
  const Outcome unheard = run({"/bin/sh", "-c", mute}, {.folder = folder.path()});
  EXPECT_EQ(unheard.exit_code, 0) << unheard.err;

  const Outcome closed =
      run({"/bin/sh", "-c", std::string(WEIR_PROGRAM) + " check weir.yaml api user=ada >&-"},
          {.folder = folder.path()});
  EXPECT_EQ(closed.exit_code, 3);
  EXPECT_THAT(closed.err, StartsWith("weir: the answer could not be written"));
}

}  // namespace
}  // namespace weir::cli_tests
