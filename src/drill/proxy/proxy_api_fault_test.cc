// The API's addresses, statuses and faults. What its clients do with them: tests/cli/proxy_test.cc.

#include "drill/proxy/proxy_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "testing/fake_redis.h"

namespace weir::drill {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

class ProxyApiTest : public ::testing::Test {
 protected:
  ApiAnswer ask(std::string_view method, std::string_view target, const std::string& body = {}) {
    return api_.answer(method, target, body);
  }
  Json told(std::string_view method, std::string_view target, const std::string& body = {}) {
    return Json::parse(ask(method, target, body).body);
  }
  std::string fault(std::string_view target, const std::string& body) {
    const ApiAnswer answer = ask("POST", target, body);
    EXPECT_EQ(answer.status, 400u) << answer.body;
    const Json json = Json::parse(answer.body);
    EXPECT_EQ(json["status"], answer.status);
    return json["error"];
  }
  void make(const std::string& name) {
    ASSERT_EQ(ask("POST", "/proxies", Json{{"name", name}, {"upstream", upstream_}}.dump()).status,
              201u);
  }

  testing::FakeRedis server_;
  std::string upstream_ = "127.0.0.1:" + std::to_string(server_.port());
  ProxySet proxies_;
  ProxyApi api_{proxies_};
};

TEST_F(ProxyApiTest, MakesShowsChangesAndForgetsProxies) {
  const Json made = told("POST", "/proxies",
                         Json{{"name", "redis"},
                              {"listen", "127.0.0.1:0"},
                              {"upstream", upstream_},
                              {"enabled", true},
                              {"toxics", nullptr}}
                             .dump());
  EXPECT_EQ(made["name"], "redis");
  EXPECT_NE(made["listen"], "127.0.0.1:0") << "the port that was had";
  EXPECT_EQ(made["toxics"], Json::array());
  EXPECT_EQ(told("GET", "/proxies")["redis"], made);
  EXPECT_EQ(told("GET", "/proxies/redis"), made);
  EXPECT_EQ(ask("POST", "/proxies", made.dump()).status, 409u);

  Json off = told("PATCH", "/proxies/redis", R"({"enabled": false})");
  EXPECT_EQ(off["enabled"], false);
  EXPECT_EQ(off["listen"], made["listen"]) << "it keeps its port while it is off";
  EXPECT_EQ(told("POST", "/proxies/redis", R"({"enabled": true})"), made);
  EXPECT_EQ(ask("DELETE", "/proxies/redis").status, 204u);
  EXPECT_EQ(ask("GET", "/proxies/redis").status, 404u);
}

TEST_F(ProxyApiTest, AProxyThatCannotBeMovedStaysWhereItIs) {
  make("a");
  const Json before = told("GET", "/proxies/a");
  EXPECT_EQ(ask("POST", "/proxies/a", Json{{"listen", upstream_}}.dump()).status, 409u);
  EXPECT_EQ(told("GET", "/proxies/a"), before);
}

TEST_F(ProxyApiTest, MakesShowsChangesAndForgetsToxics) {
  make("redis");
  const Json made = told("POST", "/proxies/redis/toxics",
                         R"({"type": "latency", "attributes": {"latency": 100.0}})");
  EXPECT_EQ(made, Json::parse(R"({"name": "latency_downstream", "type": "latency",
      "stream": "downstream", "toxicity": 1.0, "attributes": {"latency": 100, "jitter": 0}})"));
  EXPECT_EQ(ask("POST", "/proxies/redis/toxics", made.dump()).status, 409u);
  EXPECT_EQ(told("GET", "/proxies/redis/toxics"), Json::array({made}));
  EXPECT_EQ(told("GET", "/proxies/redis/toxics/latency_downstream"), made);
  const Json changed = told("POST", "/proxies/redis/toxics/latency_downstream",
                            R"({"toxicity": 0.25, "attributes": {"jitter": 10}})");
  EXPECT_EQ(changed["toxicity"], 0.25);
  EXPECT_EQ(changed["attributes"], Json::parse(R"({"latency": 100, "jitter": 10})"));
  EXPECT_EQ(ask("DELETE", "/proxies/redis/toxics/latency_downstream").status, 204u);
  EXPECT_EQ(ask("DELETE", "/proxies/redis/toxics/latency_downstream").status, 404u);
}

TEST_F(ProxyApiTest, ResetEnablesEverythingAndTakesEveryToxicAway) {
  make("a");
  make("b");
  EXPECT_EQ(ask("POST", "/proxies/a/toxics", R"({"type": "drop"})").status, 200u);
  EXPECT_EQ(ask("POST", "/proxies/b", R"({"enabled": false})").status, 200u);
  EXPECT_EQ(ask("POST", "/reset").status, 204u);
  EXPECT_EQ(told("GET", "/proxies")["a"]["toxics"], Json::array());
  EXPECT_EQ(told("GET", "/proxies")["b"]["enabled"], true);
}

TEST_F(ProxyApiTest, PopulateLeavesWhatIsThereAndLooksAtAllBeforeItMakesAny) {
  make("a");
  EXPECT_EQ(ask("POST", "/proxies/a/toxics", R"({"type": "drop"})").status, 200u);
  Json list = Json::array({told("GET", "/proxies/a"), {{"name", "b"}, {"upstream", upstream_}}});
  list[0].erase("toxics");
  const ApiAnswer answer = ask("POST", "/populate", list.dump());
  EXPECT_EQ(answer.status, 201u);
  EXPECT_EQ(Json::parse(answer.body)["proxies"].size(), 2u);
  EXPECT_EQ(told("GET", "/proxies/a")["toxics"].size(), 1u);
  EXPECT_THAT(fault("/populate", R"([{"name": "c", "upstream": "127.0.0.1:1"}, {"name": "d"}])"),
              HasSubstr("missing required field: upstream at proxy 2"));
  EXPECT_EQ(ask("GET", "/proxies/c").status, 404u);
}

TEST_F(ProxyApiTest, SaysWhatIsWrongWithABody) {
  make("a");
  EXPECT_THAT(fault("/proxies", "{"), HasSubstr("no JSON"));
  EXPECT_THAT(fault("/proxies", "[]"), HasSubstr("no JSON object"));
  EXPECT_EQ(fault("/proxies", "{}"), "missing required field: name");
  EXPECT_EQ(fault("/proxies", R"({"name": "x"})"), "missing required field: upstream");
  EXPECT_THAT(fault("/proxies", R"({"name": "x/y", "upstream": "127.0.0.1:1"})"),
              HasSubstr("name"));
  EXPECT_THAT(fault("/proxies", R"({"name": "x", "upstream": "here"})"),
              HasSubstr("'here' is no host:port"));
  EXPECT_THAT(fault("/proxies", R"({"name": "x", "upsteam": "127.0.0.1:1"})"),
              HasSubstr("no field 'upsteam'; it has name, listen, upstream"));
  EXPECT_THAT(fault("/proxies", R"({"name": "x", "upstream": "127.0.0.1:1", "enabled": "no"})"),
              HasSubstr("true or false"));
  EXPECT_THAT(fault("/proxies/a", R"({"name": "b"})"), HasSubstr("keeps the name"));
  const std::string toxics = "/proxies/a/toxics";
  EXPECT_THAT(fault(toxics, R"({"type": "slow"})"),
              HasSubstr("invalid toxic type: 'slow'; it must be latency, bandwidth"));
  EXPECT_THAT(fault(toxics, R"({"type": "latency", "stream": "sideways"})"),
              HasSubstr("stream was invalid"));
  EXPECT_THAT(fault(toxics, R"({"type": "latency", "toxicity": 1.5})"), HasSubstr("from 0 to 1"));
  EXPECT_THAT(fault(toxics, R"({"type": "latency", "attributes": {"delay": 1}})"),
              HasSubstr("no attribute 'delay'; it has latency or jitter"));
  EXPECT_THAT(fault(toxics, R"({"type": "latency", "attributes": {"latency": -1}})"),
              HasSubstr("attributes.latency is -1; it must be a whole number from 0 to 3600000"));
  EXPECT_THAT(fault(toxics, R"({"type": "bandwidth", "attributes": {"rate": 0.5}})"),
              HasSubstr("from 1 to"));
  EXPECT_THAT(fault(toxics, R"({"type": "refuse", "toxicity": 0.5})"), HasSubstr("must be 1"));
  EXPECT_EQ(told("GET", toxics), Json::array()) << "nothing was taken";
}

TEST_F(ProxyApiTest, KnowsItsAddressesAndMethods) {
  EXPECT_EQ(told("GET", "/version")["version"], ProxyApi::kSpokenVersion);
  for (const char* target : {"/", "/nope", "/proxies/x", "/proxies/x/toxics", "/proxies/x/y",
                             "/proxies/x/toxics/y/z", "/version/x"}) {
    EXPECT_EQ(ask("GET", target).status, 404u) << target;
  }
  for (const char* target : {"/proxies", "/reset", "/populate", "/version"}) {
    EXPECT_EQ(ask("PUT", target).status, 405u) << target;
  }
}

TEST_F(ProxyApiTest, HasNoMoreProxiesAndToxicsThanItSays) {
  const auto named = [](std::size_t i) {
    return Json{{"name", "p" + std::to_string(i)}, {"upstream", "127.0.0.1:1"}, {"enabled", false}};
  };
  for (std::size_t i = 0; i < ProxySet::kMostProxies; ++i) {
    ASSERT_EQ(ask("POST", "/proxies", named(i).dump()).status, 201u);
  }
  EXPECT_EQ(ask("POST", "/proxies", named(ProxySet::kMostProxies).dump()).status, 409u);
  for (std::size_t i = 0; i < ProxySet::kMostToxics; ++i) {
    ASSERT_EQ(ask("POST", "/proxies/p0/toxics",
                  Json{{"type", "drop"}, {"name", "t" + std::to_string(i)}}.dump())
                  .status,
              200u);
  }
  EXPECT_EQ(ask("POST", "/proxies/p0/toxics", R"({"type": "drop"})").status, 409u);
}

TEST_F(ProxyApiTest, AFieldThatStandsTwiceIsAFault) {
  make("redis");
  EXPECT_THAT(fault("/proxies", R"({"name": "a", "upstream": "127.0.0.1:9", "name": "b"})"),
              HasSubstr("field 'name' stands there twice"));
  EXPECT_THAT(fault("/proxies/redis/toxics",
                    R"({"type": "latency", "attributes": {"latency": 1, "latency": 2}})"),
              HasSubstr("field 'latency' stands there twice"));
  EXPECT_THAT(fault("/populate", R"([{"name": "a", "name": "a", "upstream": "127.0.0.1:9"}])"),
              HasSubstr("field 'name' stands there twice"));
  EXPECT_EQ(proxies_.all().size(), 1U);
  // The same word in two objects is none.
  EXPECT_EQ(
      ask("POST", "/populate",
          R"([{"name": "a", "upstream": "127.0.0.1:9"}, {"name": "b", "upstream": "127.0.0.1:9"}])")
          .status,
      201u);
}

TEST_F(ProxyApiTest, AnUpstreamThatCannotBeOneIsAFault) {
  EXPECT_THAT(fault("/proxies", R"({"name": "a", "upstream": "127.0.0.1:0"})"),
              HasSubstr("has port 0"));
  make("redis");
  const std::string listen = told("GET", "/proxies/redis")["listen"];
  EXPECT_THAT(fault("/proxies/redis", Json{{"upstream", listen}}.dump()),
              HasSubstr("is the proxy itself"));
  EXPECT_EQ(told("GET", "/proxies/redis")["upstream"], upstream_) << "it stays as it was";
  EXPECT_EQ(told("GET", "/proxies/redis")["enabled"], true);

  const std::string port = listen.substr(listen.rfind(':') + 1);
  EXPECT_THAT(fault("/proxies/redis",
                    Json{{"listen", "0.0.0.0:" + port}, {"upstream", "127.0.0.2:" + port}}.dump()),
              HasSubstr("is the proxy itself"));
  EXPECT_THAT(
      fault("/proxies/redis",
            Json{{"listen", "127.0.0.1:" + port}, {"upstream", "localhost:" + port}}.dump()),
      HasSubstr("is the proxy itself"));
}

TEST_F(ProxyApiTest, ProxiesThatLeadToEachOtherAreAFault) {
  make("a");
  const std::string a = told("GET", "/proxies/a")["listen"];
  const Json b = told("POST", "/proxies", Json{{"name", "b"}, {"upstream", a}}.dump());
  const Json c = told("POST", "/proxies", Json{{"name", "c"}, {"upstream", b["listen"]}}.dump());
  EXPECT_THAT(fault("/proxies/a", Json{{"upstream", c["listen"]}}.dump()),
              HasSubstr("would come back to it through other proxies"));
  EXPECT_EQ(told("GET", "/proxies/a")["upstream"], upstream_);

  // One that is off leads nowhere, until it is to be on.
  ask("POST", "/proxies/c", R"({"enabled": false})");
  EXPECT_EQ(ask("POST", "/proxies/a", Json{{"upstream", c["listen"]}}.dump()).status, 200u);
  EXPECT_THAT(fault("/proxies/c", R"({"enabled": true})"), HasSubstr("would come back to it"));
  EXPECT_EQ(told("GET", "/proxies/c")["enabled"], false);
}

}  // namespace
}  // namespace weir::drill
