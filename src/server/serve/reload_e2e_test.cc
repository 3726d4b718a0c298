// Reloading must neither reset nor mix counters, and a bad file must change nothing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <iterator>
#include <regex>
#include <thread>
#include <vector>

#include "server/serve/served_process.h"

namespace weir::server {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

// Periods so long that nothing comes back while a test runs.
std::string policy_with(int limit, const std::string& comment = "") {
  std::string text = "inputs: [user]\nroutes:\n";
  for (const char* algorithm : {"gcra", "fixed_window", "sliding_window", "sliding_log"}) {
    text += std::string("  ") + algorithm + ":\n    limits: [{requests: " + std::to_string(limit) +
            ", per: 30d, by: [user], algorithm: " + algorithm +
            "}]\n    protects: capacity\n    ceiling: 100000 per second\n";
  }
  return text + "# " + comment + "\n";
}

TestClient::Answer check(const ServedProcess& weir, const std::string& route) {
  return weir.http("POST", "/v1/check",
                   R"({"route":")" + route + R"(","descriptors":{"user":"u"}})");
}

TEST(Reload, KeepsUsedUnitsWhateverBecomesOfTheLimit) {
  for (const char* route : {"gcra", "fixed_window", "sliding_window", "sliding_log"}) {
    ServedProcess weir(policy_with(10));
    ASSERT_TRUE(weir.ready()) << weir.err();
    const auto reload = [&](int limit) {
      weir.write_policy(policy_with(limit));
      const auto done = weir.admin("POST", "/policy/reload", "", ServedProcess::bearer());
      EXPECT_EQ(done.status, 200) << done.body;
    };
    for (int i = 0; i < 8; ++i) ASSERT_EQ(check(weir, route).status, 200) << route;
    for (int i = 0; i < 5; ++i) reload(10);
    const std::string probe =
        R"({"route":")" + std::string(route) + R"(","descriptors":{"user":"u"},"cost":0})";
    EXPECT_THAT(weir.http("POST", "/v1/check", probe).body, HasSubstr("\"remaining\":2")) << route;
    reload(5);
    EXPECT_EQ(check(weir, route).status, 429) << route;
    reload(20);
    // A gcra that denied under five holds no more than five, or the wait that it told then would
    // not have been true: docs/internals/arithmetic.md.
    const std::string left = std::string(route) == "gcra" ? "15" : "12";
    EXPECT_THAT(weir.http("POST", "/v1/check", probe).body, HasSubstr("\"remaining\":" + left))
        << route;
  }
}

TEST(Reload, TriesAgainWhatFailedForAReasonThatPasses) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer that looks at vtables needs a descriptor for it";
#endif
  ServedProcess weir(policy_with(10));
  ASSERT_TRUE(weir.ready()) << weir.err();
  const auto policy_page = [&] { return weir.admin("GET", "/policy").body; };
  ASSERT_THAT(policy_page(), HasSubstr("\"generation\":1"));
  TestClient client(weir.http());  // a descriptor that it has already
  rlimit before{};
  ASSERT_EQ(::prlimit(weir.pid(), RLIMIT_NOFILE, nullptr, &before), 0);
  const rlimit none{.rlim_cur = 3, .rlim_max = before.rlim_max};
  ASSERT_EQ(::prlimit(weir.pid(), RLIMIT_NOFILE, &none, nullptr), 0);
  weir.write_policy(policy_with(20));
  EXPECT_TRUE(ServedProcess::within([&] {
    return weir.err().find("policy_rejected") != std::string::npos;
  })) << weir.err();
  ASSERT_EQ(::prlimit(weir.pid(), RLIMIT_NOFILE, &before, nullptr), 0);
  EXPECT_TRUE(ServedProcess::within([&] {
    return weir.err().find("policy_loaded") != std::string::npos;
  })) << weir.err();
  EXPECT_THAT(policy_page(), HasSubstr("\"generation\":2"));
}

TEST(Reload, UnderLoadNoErrorAndNoExtraAdmission) {
  constexpr int kLimit = 1000;
  ServedProcess weir(policy_with(kLimit));
  ASSERT_TRUE(weir.ready()) << weir.err();
  std::atomic<int> allowed{0}, limited{0}, wrong{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      TestClient client(weir.http());
      while (!stop) {
        const auto answer =
            client.ask("POST", "/v1/check", R"({"route":"gcra","descriptors":{"user":"u"}})");
        const int status = answer ? answer->status : 0;
        ++(status == 200 ? allowed : status == 429 ? limited : wrong);
        std::this_thread::sleep_for(500us);
      }
    });
  }
  // The file is seen to change by itself, many times: each rests until it is.
  bool all_seen = true;
  for (int i = 0; i < 20 && all_seen; ++i) {
    weir.write_policy(policy_with(kLimit, std::to_string(i)));
    const std::string next = "\"generation\":" + std::to_string(i + 2) + ",";
    all_seen = ServedProcess::within(
        [&] { return weir.admin("GET", "/policy").body.find(next) != std::string::npos; });
  }
  EXPECT_TRUE(all_seen) << weir.admin("GET", "/policy").body << weir.err();
  EXPECT_TRUE(ServedProcess::within([&] { return limited > 100; }));
  stop = true;
  for (std::thread& each : callers) each.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(allowed, kLimit);
}

TEST(Reload, ABadFileKeepsThePolicyAndSaysSoEverywhere) {
  ServedProcess weir(policy_with(10));
  ASSERT_TRUE(weir.ready()) << weir.err();
  ASSERT_EQ(check(weir, "gcra").status, 200);
  weir.write_policy(
      "inputs: [user]\nroutes:\n  gcra:\n    limits: [1 per fortnight]\n    protects: nothing\n");
  ASSERT_TRUE(ServedProcess::within(
      [&] { return weir.admin("GET", "/readyz").body.find("policy_fault") != std::string::npos; }));
  const auto ready = weir.admin("GET", "/readyz");
  EXPECT_EQ(ready.status, 200);  // degraded is ready
  EXPECT_THAT(ready.body, HasSubstr("\"degraded\":true"));
  EXPECT_THAT(ready.body, HasSubstr("\"line\":4"));
  EXPECT_THAT(ready.body, HasSubstr("\"field\":\"routes.gcra.limits[0]"));
  EXPECT_THAT(weir.admin("GET", "/policy").body, HasSubstr("\"generation\":1"));
  EXPECT_THAT(weir.admin("GET", "/metrics").body, HasSubstr("weir_policy_load_errors_total 1\n"));
  EXPECT_EQ(check(weir, "gcra").status, 200);
  EXPECT_THAT(weir.err(), HasSubstr("event=policy_rejected"));
  EXPECT_THAT(weir.err(), HasSubstr(" line=4 column=14 field=routes.gcra.limits[0]"));
  // Ready, whose line may be late, and rejected.
  EXPECT_TRUE(
      ServedProcess::within([&] { return weir.err().find("event=ready") != std::string::npos; }));
  EXPECT_EQ(std::ranges::count(weir.err(), '\n'), 2) << weir.err();

  weir.write_policy(policy_with(10, "mended"));
  ASSERT_TRUE(ServedProcess::within([&] {
    return weir.admin("GET", "/readyz").body.find("\"degraded\":false") != std::string::npos;
  }));
  EXPECT_THAT(weir.admin("GET", "/policy").body, HasSubstr("\"generation\":2"));
  EXPECT_THAT(weir.admin("GET", "/policy").body, Not(HasSubstr("\"fault\"")));
}

TEST(Reload, APipeInThePolicysPlaceHoldsNothingUp) {
  ServedProcess weir(policy_with(10));
  ASSERT_TRUE(weir.ready()) << weir.err();
  std::filesystem::remove(weir.policy_path());
  ASSERT_EQ(::mkfifo(weir.policy_path().c_str(), 0600), 0);
  weir.signal(SIGHUP);
  ASSERT_TRUE(ServedProcess::within([&] {
    return weir.admin("GET", "/readyz").body.find("is not a regular file") != std::string::npos;
  }));
  weir.write_policy(policy_with(10, "mended"));
  EXPECT_TRUE(ServedProcess::within([&] {
    return weir.admin("GET", "/readyz").body.find("\"degraded\":false") != std::string::npos;
  }));
}

TEST(Reload, TheContentsBeforeTheFaultAreBackInForce) {
  ServedProcess weir(policy_with(10));
  weir.write_policy("nonsense");
  ASSERT_TRUE(ServedProcess::within(
      [&] { return weir.admin("GET", "/readyz").body.find("policy_fault") != std::string::npos; }));
  weir.write_policy(policy_with(10));  // what is in force already
  EXPECT_TRUE(ServedProcess::within([&] {
    return weir.admin("GET", "/readyz").body.find("\"degraded\":false") != std::string::npos;
  }));
}

TEST(Reload, HangUpLoadsAgain) {
  ServedProcess weir(policy_with(10));
  weir.signal(SIGHUP);
  EXPECT_TRUE(ServedProcess::within([&] {
    return weir.admin("GET", "/policy").body.find("\"generation\":2") != std::string::npos;
  }));
}

TEST(Reload, ARequestedReloadThatFailsSaysWhy) {
  ServedProcess weir(policy_with(10));
  weir.write_policy("routes: 7\n");
  const auto answer = weir.admin("POST", "/policy/reload", "", ServedProcess::bearer());
  EXPECT_EQ(answer.status, 422);
  EXPECT_THAT(answer.body, HasSubstr("\"fault\":{"));
  EXPECT_THAT(answer.body, HasSubstr("\"line\":1"));
  EXPECT_THAT(answer.body, HasSubstr("\"generation\":1"));
}

TEST(Reload, AnotherStoreIsAFaultAndNotASilentSwitch) {
  ServedProcess weir(policy_with(10));
  weir.write_policy("store: redis://127.0.0.1:1/0\n" + policy_with(10));
  const auto answer = weir.admin("POST", "/policy/reload", "", ServedProcess::bearer());
  EXPECT_EQ(answer.status, 422) << answer.body;
  EXPECT_EQ(check(weir, "gcra").status, 200);
}

// Taken once, shown by /explain, and not in force.
TEST(Reload, SettingsOfTheStoreThatItCannotChangeAreRefusedAndExplainKeepsWhatIsInForce) {
  const std::string url = "store: {url: 'redis://127.0.0.1:1'";
  ServedProcess weir(url + "}\n" + policy_with(10));
  ASSERT_TRUE(weir.ready()) << weir.err();
  const auto explain = [&] { return weir.admin("GET", "/explain").body; };
  ASSERT_THAT(explain(), HasSubstr("a request waits 20ms"));
  for (const auto& [fields, named] :
       {std::pair{"deadline: 9s", "weir.yaml:1:47: store.deadline: a reload cannot change it"},
        std::pair{"breaker: {failures: 900}", "store.breaker.failures: a reload"},
        std::pair{"workers: {of: 3}", "store.workers.of: a reload"},
        std::pair{"startup: require", "store.startup: a reload"}}) {
    weir.write_policy(url + ", " + fields + "}\n" + policy_with(10));
    const auto answer = weir.admin("POST", "/policy/reload", "", ServedProcess::bearer());
    EXPECT_EQ(answer.status, 422) << fields;
    EXPECT_THAT(answer.body, HasSubstr(named));
    EXPECT_THAT(answer.body, HasSubstr("\"field\":\"store."));
    EXPECT_THAT(explain(), HasSubstr("a request waits 20ms")) << fields;
    EXPECT_THAT(explain(), HasSubstr("is away. After 5\n")) << fields;
    EXPECT_THAT(weir.admin("GET", "/readyz").body, HasSubstr(named));
  }
  EXPECT_THAT(weir.admin("GET", "/policy").body, HasSubstr("\"generation\":1"));
  weir.write_policy(url + "}\n" + policy_with(20));
  EXPECT_EQ(weir.admin("POST", "/policy/reload", "", ServedProcess::bearer()).status, 200);
}

TEST(Reload, NamesEveryFaultWithItsPlaceInTheLogToo) {
  const std::string url = "store: {url: 'redis://127.0.0.1:1'";
  ServedProcess weir(url + "}\n" + policy_with(10));
  ASSERT_TRUE(weir.ready()) << weir.err();
  const auto reload = [&](const std::string& text) {
    weir.write_policy(text);
    return weir.admin("POST", "/policy/reload", "", ServedProcess::bearer());
  };
  // What a reload cannot change, all of it, whether written there or taken out.
  auto answer = reload(
      "store:\n  url: 'redis://127.0.0.1:1'\n  deadline: 9s\n  breaker:\n"
      "    failures: 9\n  workers: {of: 3}\n" +
      policy_with(10));
  EXPECT_EQ(answer.status, 422);
  for (const char* place : {R"("line":3,"column":13,"field":"store.deadline")",
                            R"("line":5,"column":15,"field":"store.breaker.failures")",
                            R"("line":6,"column":17,"field":"store.workers.of")"})
    EXPECT_THAT(answer.body, HasSubstr(place));
  EXPECT_THAT(weir.err(), HasSubstr(" line=3 column=13 field=store.deadline problem="));
  EXPECT_THAT(weir.err(), HasSubstr(" faults=3 generation_kept=1"));
  for (const char* rest : {" line=5 column=15 field=store.breaker.failures problem=",
                           " line=6 column=17 field=store.workers.of problem="})
    EXPECT_THAT(weir.err(), HasSubstr("event=policy_fault file=" + weir.policy_path() + rest));

  std::string many = url + "}\nroutes:\n";
  for (int i = 0; i < 30; ++i) many += "  r" + std::to_string(i) + ": {limits: [], x: 1}\n";
  const std::size_t before = weir.err().size();
  answer = reload(many);
  EXPECT_THAT(answer.body, HasSubstr("\"field\":\"routes.r29.x\""));
  const std::string said = weir.err().substr(before);
  // Once, though the watch may have seen the file, too, and before.
  const std::regex line("event=policy_fault ");
  EXPECT_EQ(std::distance(std::sregex_iterator(said.begin(), said.end(), line), {}), 19 + 1)
      << said;
  EXPECT_THAT(said, HasSubstr(" more: /policy and weir lint name them\""));
  EXPECT_THAT(said, Not(HasSubstr("r29")));
}

TEST(Reload, AFloodOfBadFilesIsNotAFloodOfLines) {
  ServedProcess weir(policy_with(10));
  weir.write_policy("nonsense");
  TestClient admin(weir.admin());
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(admin.ask("POST", "/policy/reload", "", ServedProcess::bearer()));
  }
  EXPECT_LT(std::ranges::count(weir.err(), '\n'), 20);
}

}  // namespace
}  // namespace weir::server
