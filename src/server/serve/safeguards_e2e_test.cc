// A breaker and a concurrency limit that two servers share, each a process of its own, asked over
// HTTP by a caller in another language, through a store that is killed in the middle and comes
// back.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "server/serve/served_process.h"
#include "testing/redis_server.h"

namespace weir::server {
namespace {

class SafeguardsOfTwoServers : public ::testing::Test {
 protected:
  SafeguardsOfTwoServers() {
    for (int i = 0; i < 2; ++i) servers_[i] = std::make_unique<ServedProcess>(policy(i));
  }
  std::string policy(int index) const {
    return "store: {url: '" + redis_.url() +
           "', deadline: 5s, workers: {of: 2, index: " + std::to_string(index) + R"(}}
breakers:
  payments: {consecutive_failures: 2, failure_rate: off, window: {calls: 10}, minimum_calls: 2,
             open_wait: 500ms, jitter: 0%, probes: 1, probe_successes: 1, probe_deadline: 10s,
             ramp: off, shared: true}
concurrency:
  reports: {limit: 2, lease: 300s, max_hold: 600s, shared: true}
)";
  }
  static bool until(const std::function<bool()>& done) { return ServedProcess::within(done); }

  std::string store(int i) const { return servers_[i]->admin("GET", "/store").body; }
  bool store_says(int i, const std::string& text) const {
    return store(i).find(text) != std::string::npos;
  }
  bool both_say(const std::string& text) const {
    return store_says(0, text) && store_says(1, text);
  }

  static std::string member(const std::string& body, const std::string& name) {
    const std::string begin = "\"" + name + "\":\"";
    const std::size_t at = body.find(begin);
    if (at == std::string::npos) return {};
    return body.substr(at + begin.size(), body.find('"', at + begin.size()) - at - begin.size());
  }
  std::string breaker(int i) const { return servers_[i]->http("GET", "/v1/breaker/payments").body; }
  std::string state(int i) const { return member(breaker(i), "state"); }
  // One call through it: whether it was let through. `more` are further members of its report.
  bool call(int i, const std::string& outcome, const std::string& more = "") const {
    const auto admitted = servers_[i]->http("POST", "/v1/breaker/payments/admit");
    if (admitted.status != 200) return false;
    const auto reported = servers_[i]->http("POST", "/v1/breaker/payments/report",
                                            R"({"permit":")" + member(admitted.body, "permit") +
                                                R"(","outcome":")" + outcome + "\"" + more + "}");
    EXPECT_EQ(reported.status, 200) << reported.body;
    return true;
  }
  bool reaches(int i, const std::string& wanted) const {
    return until([&] { return state(i) == wanted; });
  }
  // Calls that succeed, as often as it lets them.
  bool closes(int i) const {
    return until([&] {
      call(i, "ok");
      return state(i) == "closed";
    });
  }
  TestClient::Answer lease(int i, const std::string& verb, const std::string& id) const {
    return servers_[i]->http("POST", "/v1/lease/reports/" + verb, R"({"id":")" + id + "\"}");
  }
  bool orders(int i, const std::string& body) const {
    const auto set = servers_[i]->admin("POST", "/breaker", body, ServedProcess::bearer());
    EXPECT_EQ(set.status, 200) << set.body;
    return set.status == 200;
  }

  static constexpr const char* kFollows = R"("shared":{"store":"answers","decides":"fleet")";
  static constexpr const char* kAlone = R"("shared":{"store":"away","decides":"this worker")";

  testing::RedisServer redis_;
  std::unique_ptr<ServedProcess> servers_[2];
};

TEST_F(SafeguardsOfTwoServers, GoTogetherThroughAStoreThatIsKilledAndComesBack) {
  ASSERT_TRUE(servers_[0]->ready()) << servers_[0]->err();
  ASSERT_TRUE(servers_[1]->ready()) << servers_[1]->err();
  // Together: what one finds holds for both.
  ASSERT_TRUE(until([&] { return both_say(kFollows); })) << store(0) << store(1);
  ASSERT_TRUE(until([&] { return both_say(R"("changes":"pushed")"); })) << store(0) << store(1);
  EXPECT_TRUE(call(0, "failure"));
  EXPECT_TRUE(call(0, "failure"));
  EXPECT_EQ(state(0), "open");
  EXPECT_TRUE(reaches(1, "open")) << breaker(1);
  EXPECT_TRUE(closes(1));
  EXPECT_TRUE(reaches(0, "closed")) << breaker(0);
  ASSERT_TRUE(until([&] { return lease(0, "acquire", "job-0001-attempt-1").status == 200; }));
  ASSERT_EQ(lease(1, "acquire", "job-0002-attempt-1").status, 200);
  EXPECT_EQ(lease(0, "acquire", "job-0003-attempt-1").status, 429) << "one limit";
  EXPECT_EQ(lease(0, "renew", "job-0002-attempt-1").status, 200) << "what the other gave";

  // Killed: each says so, of both, and goes by what it sees itself.
  redis_.kill();
  ASSERT_TRUE(until([&] { return both_say(kAlone); })) << store(0) << store(1);
  ASSERT_TRUE(until([&] {
    return lease(0, "renew", "job-0009-attempt-1").status == 503 &&
           lease(1, "renew", "job-0009-attempt-1").status == 503;
  }));
  ASSERT_TRUE(until([&] { return both_say(R"("store":"away","given_without_store_total")"); }))
      << store(0) << store(1);
  EXPECT_TRUE(closes(0));
  EXPECT_TRUE(closes(1));
  EXPECT_TRUE(call(1, "failure"));
  EXPECT_TRUE(call(1, "failure"));
  EXPECT_EQ(state(1), "open");
  EXPECT_EQ(state(0), "closed") << "nobody can tell it";
  const auto renewed = lease(0, "renew", "job-0001-attempt-1");
  EXPECT_EQ(renewed.status, 200) << "what it gave itself";
  EXPECT_NE(renewed.body.find("\"without_store\":true"), std::string::npos) << renewed.body;
  EXPECT_EQ(lease(1, "renew", "job-0002-attempt-1").status, 200);
  EXPECT_TRUE(closes(1));

  // Back, with nothing in it: together again, and told of the leases that were renewed meanwhile.
  redis_.start();
  ASSERT_TRUE(until([&] { return both_say(kFollows); })) << store(0) << store(1);
  ASSERT_TRUE(until([&] { return lease(1, "renew", "job-0001-attempt-1").status == 200; }));
  ASSERT_TRUE(until([&] { return lease(0, "renew", "job-0002-attempt-1").status == 200; }));
  EXPECT_EQ(lease(0, "acquire", "job-0003-attempt-1").status, 429);
  // The dependency's own word needs nobody else.
  ASSERT_TRUE(until([&] { return call(0, "failure", R"(,"open_for_ms":60000)"); }));
  EXPECT_TRUE(reaches(1, "open")) << breaker(1);
}

TEST_F(SafeguardsOfTwoServers, ObeyAnOrderThatNamesItsAuthorItsReasonAndItsEnd) {
  ASSERT_TRUE(until([&] { return both_say(kFollows); })) << store(0) << store(1);
  ASSERT_TRUE(orders(0, R"({"breaker":"payments","mode":"forced_open","by":"ada",)"
                        R"("reason":"they move","for_ms":3600000})"));
  const std::string order =
      R"("mode":"forced_open","mode_by":"ada","mode_reason":"they move","mode_for_ms":)";
  ASSERT_TRUE(until([&] { return both_say(order); })) << store(0) << store(1);
  EXPECT_TRUE(both_say(R"("mode_left_ms":)"));
  EXPECT_FALSE(call(1, "ok"));
  // The log of the one that was not asked names them, too.
  EXPECT_TRUE(until([&] {
    const std::string log = servers_[1]->err();
    return log.find("by=ada") != std::string::npos && log.find("they move") != std::string::npos;
  })) << servers_[1]->err();
  // A shorter order takes its place, and ends by itself, at both.
  ASSERT_TRUE(orders(1, R"({"breaker":"payments","mode":"forced_open","by":"eve","for_ms":1500})"));
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(until([&] { return call(i, "ok"); })) << breaker(i);
    EXPECT_TRUE(until([&] { return member(breaker(i), "mode") == "automatic"; })) << breaker(i);
    EXPECT_TRUE(until([&] { return !store_says(i, "mode_by"); })) << store(i);
  }
}

TEST_F(SafeguardsOfTwoServers, RefuseAnOrderThatIsNonsense) {
  const auto refused = [&](const std::string& body) {
    return servers_[0]->admin("POST", "/breaker", body, ServedProcess::bearer());
  };
  EXPECT_EQ(refused(R"({"breaker":"payments","mode":"automatic","for_ms":1000})").status, 400);
  EXPECT_EQ(refused(R"({"breaker":"payments","mode":"forced_open","for_ms":0})").status, 400);
  const auto wide = refused(R"({"breaker":"payments","mode":"forced_open","by":")" +
                            std::string(65, 'a') + "\"}");
  EXPECT_EQ(wide.status, 400);
  EXPECT_NE(wide.body.find("by must be at most 64 bytes"), std::string::npos) << wide.body;
  EXPECT_EQ(state(0), "closed");
}

}  // namespace
}  // namespace weir::server
