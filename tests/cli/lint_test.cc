#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "program.h"

namespace weir::cli_tests {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Lint : ::testing::Test {
  Lint() {
    folder.write("weir.yaml",
                 "inputs: [user]\n"
                 "routes: {api: {limits: [5 per minute by user], protects: capacity, "
                 "ceiling: 50 per second}}\n");
  }
  Outcome asked(std::vector<std::string> words, std::map<std::string, std::string> variables = {}) {
    return weir(std::move(words), {.folder = folder.path(), .variables = std::move(variables)});
  }
  Folder folder;
};

TEST_F(Lint, NamesEveryFaultOfAPolicy) {
  folder.write("bad.yaml",
               "routes:\n"
               "  api:\n"
               "    limits: [5 per fortnight]\n"
               "    protects: everything\n");
  const Outcome text = asked({"lint", "bad.yaml", "weir.yaml"});
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_EQ(text.err, "");
  EXPECT_THAT(text.out, HasSubstr("bad.yaml:3:"));
  EXPECT_THAT(text.out, HasSubstr("bad.yaml:4:"));
  EXPECT_THAT(text.out, HasSubstr("bad.yaml: 2 faults\n"));
  EXPECT_THAT(text.out, HasSubstr("weir.yaml: no faults\n"));

  const Outcome json = asked({"lint", "bad.yaml", "--json"});
  EXPECT_EQ(json.exit_code, 1);
  std::istringstream lines(json.out);
  int faults = 0;
  for (std::string line; std::getline(lines, line); ++faults) {
    const auto fault = nlohmann::json::parse(line, nullptr, false);
    ASSERT_FALSE(fault.is_discarded()) << line;
    EXPECT_EQ(fault["file"], "bad.yaml");
    if (fault.contains("faults")) {
      EXPECT_EQ(fault["faults"], faults) << "the last line counts them";
      EXPECT_TRUE(lines.peek() == std::istringstream::traits_type::eof());
      break;
    }
    EXPECT_EQ(fault["severity"], "fault");
    EXPECT_GT(fault["line"], 0);
    EXPECT_GT(fault["column"], 0);
    for (const char* member : {"field", "value", "problem"}) {
      EXPECT_FALSE(std::string(fault[member]).empty()) << member;
    }
  }
  EXPECT_EQ(faults, 2);

  const Outcome check = asked({"check", "bad.yaml", "api"});
  EXPECT_EQ(check.exit_code, 2);
  EXPECT_EQ(check.out, "");
  EXPECT_THAT(check.err, StartsWith("weir: bad.yaml:3:"));
  EXPECT_THAT(check.err, HasSubstr("(there is more: weir lint bad.yaml)\n"));
  EXPECT_EQ(check.err.find('\n'), check.err.size() - 1);
}

// The first that cannot be read once hid what was wrong with the others.
TEST_F(Lint, GoesOnAfterAFileThatCannotBeRead) {
  folder.write("bad.yaml", "routes: 7\n");
  const std::string unread =
      "weir: missing.yaml cannot be read; name a policy file that is there and readable\n";
  const Outcome good = asked({"lint", "missing.yaml", "weir.yaml"});
  EXPECT_EQ(good.exit_code, 2);
  EXPECT_EQ(good.err, unread);
  EXPECT_EQ(good.out, "weir.yaml: no faults\n");
  for (const auto& words : {std::vector<std::string>{"lint", "bad.yaml", "missing.yaml"},
                            {"lint", "missing.yaml", "bad.yaml"}}) {
    const Outcome bad = asked(words);
    EXPECT_EQ(bad.exit_code, 2) << "the worst of them";
    EXPECT_EQ(bad.err, unread);
    EXPECT_THAT(bad.out, HasSubstr("bad.yaml: 1 fault\n"));
  }
  const Outcome json = asked({"lint", "missing.yaml", "weir.yaml", "--json"});
  EXPECT_EQ(json.exit_code, 2);
  EXPECT_THAT(
      json.out,
      StartsWith(R"({"file":"missing.yaml","problem":"cannot be read","allowed":"a policy file",)"
                 R"("severity":"fault"})"
                 "\n"
                 R"({"file":"missing.yaml","faults":1,"warnings":0,"store_asked":false})"
                 "\n"
                 R"({"file":"weir.yaml","faults":0,)"));
}

// A deployment that lints before it serves must not learn the rest from the server that is down.
TEST_F(Lint, RefusesWhatServeWould) {
  const std::string routes = "routes: {api: {limits: [5 per day by ip], protects: capacity}}\n";
  const std::string metered =
      "routes: {api: {limits: [{requests: 5, per: day, meter: true}], protects: revenue, "
      "overspend: {cap: 5}}}\n";
  const std::string redis = "redis://127.0.0.1:1";
  for (const auto& [text, fault] : std::vector<std::pair<std::string, std::string>>{
           {"store: '" + redis + "'\n" + metered,
            "routes.api: settles on a store that several workers can share"},
           {"store: '" + redis + "'\njournal: j\n" + metered,
            "journal.ledger: route 'api' settles on a store that several workers can share"}}) {
    folder.write("p.yaml", text);
    const Outcome lint = asked({"lint", "p.yaml"});
    EXPECT_EQ(lint.exit_code, 1) << text;
    const std::string place = fault.starts_with("journal.ledger") ? ":2:10" : ":2:15";
    EXPECT_THAT(lint.out, StartsWith("p.yaml" + place + ": " + fault)) << text;
    EXPECT_THAT(lint.out, HasSubstr("p.yaml: 1 fault\n"));
    const Outcome json = asked({"lint", "p.yaml", "--json"});
    EXPECT_THAT(json.out, HasSubstr("\"field\":\"" + fault.substr(0, fault.find(':')) + "\""));
    EXPECT_THAT(json.out, HasSubstr("\"faults\":1,\"warnings\":0,\"store_asked\":false"));
    const Outcome serve =
        asked({"serve", "p.yaml", "--http", "127.0.0.1:0", "--grpc", "off", "--admin", "off"});
    EXPECT_EQ(serve.exit_code, 2) << text;
    EXPECT_THAT(serve.err, HasSubstr(fault.substr(0, fault.find(" is"))));
    // On the store that will really be used.
    EXPECT_EQ(asked({"lint", "p.yaml"}, {{"WEIR_STORE", "memory:"}}).exit_code, 0) << text;
  }
  folder.write("q.yaml", metered);
  EXPECT_EQ(asked({"lint", "q.yaml"}).exit_code, 0);
  EXPECT_EQ(asked({"lint", "q.yaml"}, {{"WEIR_STORE", redis}}).exit_code, 1);
  for (const char* field : {"clock: client", "regions: 2"}) {
    folder.write("p.yaml", "store: {url: '" + redis + "', " + field + "}\n" + routes);
    EXPECT_EQ(asked({"lint", "p.yaml"}).exit_code, 0) << field;
  }
}

TEST_F(Lint, WarnsOfDomainsThatServeNeedsToBeToldOf) {
  folder.write("shop.yaml",
               "domain: shop\ndescriptors: [{key: user, rate_limit: {unit: day, "
               "requests_per_unit: 5}}]\n");
  EXPECT_EQ(asked({"lint", "shop.yaml"}).out, "shop.yaml: no faults\n");
  const Outcome shared = asked({"lint", "shop.yaml"}, {{"WEIR_STORE", "redis://127.0.0.1:1"}});
  EXPECT_EQ(shared.exit_code, 0);
  EXPECT_THAT(shared.out, StartsWith("shop.yaml: warning: rls.protects: domain 'shop' does not"));
  EXPECT_THAT(shared.out, HasSubstr("shop.yaml: 1 warning, no faults\n"));
}

// Whoever mended one fault of a metered route learned of the next by asking again, four times.
TEST_F(Lint, NamesAllThatAMeteredRouteLacksTogether) {
  folder.write("p.yaml",
               "store: redis://127.0.0.1:1\n"
               "inputs: [account]\n"
               "routes:\n"
               "  export:\n"
               "    limits: [{requests: 1000, per: day, by: [account], meter: true}]\n"
               "    protects: revenue\n"
               "  other:\n"
               "    limits: [{requests: 20000, per: day, algorithm: sliding_log}]\n"
               "    protects: security\n");
  const Outcome lint = asked({"lint", "p.yaml"});
  EXPECT_EQ(lint.exit_code, 1);
  EXPECT_THAT(lint.out, HasSubstr("routes.export: serves metered rules beyond its part, "
                                  "but says not how far; allowed: overspend: "));
  EXPECT_THAT(lint.out, HasSubstr(": routes.export: settles on a store that several "));
  EXPECT_THAT(lint.out, HasSubstr("say `journal: {folder: /var/lib/weir/journal, ledger: "));
  EXPECT_THAT(lint.out, HasSubstr("route 'other', limit '20000 per day': 20000 charges in a "));
  EXPECT_THAT(lint.out, HasSubstr("p.yaml: 3 faults\n"));
  // What it says is enough.
  folder.write("p.yaml",
               "store: redis://127.0.0.1:1\n"
               "journal: {folder: j, ledger: 'postgresql://weir@db/weir'}\n"
               "inputs: [account]\n"
               "routes:\n"
               "  export:\n"
               "    limits: [{requests: 1000, per: day, by: [account], meter: true}]\n"
               "    protects: revenue\n"
               "    overspend: {cap: 50}\n");
  EXPECT_EQ(asked({"lint", "p.yaml"}).out, "p.yaml: no faults\n");
}

TEST_F(Lint, DoesNotSayOfAFaultyFieldThatItIsMissing) {
  folder.write("p.yaml",
               "store: redis://127.0.0.1:1\n"
               "journal: {folder: j, ledger: 'mysql://db'}\n"
               "routes: {export: {limits: [{requests: 9, per: day, meter: true}], "
               "protects: revenue, overspend: {cap: 5}}}\n");
  const Outcome lint = asked({"lint", "p.yaml"});
  EXPECT_THAT(lint.out, HasSubstr("'mysql://db' names no ledger"));
  EXPECT_THAT(lint.out, HasSubstr("p.yaml: 1 fault\n"));
}

// What is explained is not what would be served.
TEST_F(Lint, ExplainWarnsOfAPolicyThatServeRefuses) {
  folder.write("p.yaml",
               "store: redis://127.0.0.1:1\n"
               "journal: j\n"
               "routes: {export: {limits: [{requests: 9, per: day, meter: true}], "
               "protects: revenue, overspend: {cap: 5}}}\n");
  const Outcome explain = asked({"explain", "p.yaml"});
  EXPECT_EQ(explain.exit_code, 0);
  EXPECT_THAT(explain.out, HasSubstr("\nexport"));
  EXPECT_THAT(
      explain.err,
      StartsWith("weir: warning: serve refuses this policy: p.yaml:2:10: journal.ledger: "));
  EXPECT_THAT(explain.err, HasSubstr("ledger: postgresql://"));
  EXPECT_EQ(asked({"explain", "p.yaml", "--store", "memory:"}).err, "");
  EXPECT_EQ(asked({"explain", "weir.yaml"}).err, "");
  folder.write("shop.yaml",
               "domain: shop\ndescriptors: [{key: user, rate_limit: {unit: day, "
               "requests_per_unit: 5}}]\n");
  EXPECT_THAT(asked({"explain", "shop.yaml", "--store", "redis://127.0.0.1:1"}).err,
              HasSubstr("serve needs --protects"));
}

}  // namespace
}  // namespace weir::cli_tests
