#include "weir/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "policy/address.h"
#include "policy/match.h"
#include "policy/model.h"
#include "policy/read_policy.h"
#include "weir/decision.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using policy::Model;
using policy::Route;
using policy::Rule;

// A policy of one route with these limits, in flow style.
Result<Policy> with_limits(const std::string& limits,
                           const std::string& rest = "protects: nothing") {
  return Policy::parse("inputs: [user, account]\nroutes:\n  r:\n    limits: " + limits + "\n    " +
                       rest + "\n");
}

Rule rule_of(const std::string& limit, const std::string& rest = "protects: nothing") {
  auto policy = with_limits("[" + limit + "]", rest);
  if (!policy) {
    ADD_FAILURE() << policy.error().message;
    return {};
  }
  return policy->model().routes.at(0).rules.at(0);
}

std::string refusal(const Result<Policy>& policy) {
  return policy ? "loads" : policy.error().message;
}

constexpr std::string_view kWhole = R"(
store: redis://127.0.0.1:6379/0
inputs: [user, account]
unmatched: refuse
trusted_proxies: [10.0.0.0/8, "::1"]
ipv6_prefix: 56
headers: [delta, epoch]
routes:
  login:
    match: {method: POST, path: /login}
    limits:
      - 5 per minute by ip
      - 20 per hour by user
    protects: security
  search:
    match:
      - {method: [GET, HEAD], path: /search/*, host: api.example}
      - {path: /find*}
    limits: [100 per minute by header:X-API-Key]
    protects: capacity
    ceiling: 50 per second
  export:
    limits:
      - 10 per second by account
      - {requests: 1000, per: day, by: [account], meter: true}
    protects: revenue
    overspend: {cap: 50}
    journal: outage
  status:
    limits: [{requests: 1000, per: minute, by: [ip], algorithm: gcra, burst: 100}]
    when_store_fails: open
    ceiling: {requests: 500, per: second, burst: 50}
    shadow: true
default: search
)";

TEST(Policy, ReadsWhereUsageIsRecorded) {
  const std::string routes =
      "\nroutes: {a: {protects: revenue, overspend: {cap: 5}, limits: [{requests: 5, per: minute, "
      "meter: true}]}}\n";
  const auto brief = Policy::parse("journal: /var/lib/weir/journal" + routes, "weir.yaml");
  ASSERT_TRUE(brief) << brief.error().message;
  EXPECT_EQ(brief->model().journal->folder, "/var/lib/weir/journal");
  EXPECT_EQ(brief->model().journal->max_bytes, 256u << 20);
  EXPECT_EQ(brief->model().journal->within, std::chrono::milliseconds(100));
  EXPECT_EQ(brief->model().journal->ledger, "");
  EXPECT_TRUE(brief->model().routes[0].journal_always);
  const auto whole = Policy::parse(
      "journal: {folder: j, max: 2GiB, within: 1s, ledger: 'postgresql://weir@db/weir'}" + routes,
      "weir.yaml");
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->model().journal->max_bytes, std::uint64_t{2} << 30);
  EXPECT_EQ(whole->model().journal->within, std::chrono::seconds(1));
  EXPECT_EQ(whole->model().journal->ledger, "postgresql://weir@db/weir");
  EXPECT_FALSE(Policy::parse(routes, "weir.yaml").value().model().journal);
}

TEST(Policy, ReadsHowAReservationEnds) {
  const auto read = [](const std::string& reservations) {
    const auto policy = Policy::parse(
        "routes: {a: {protects: revenue, overspend: {cap: 5}, limits: [{requests: 5, per: minute, "
        "meter: true}]" +
        reservations + "}}");
    EXPECT_TRUE(policy) << policy.error().message;
    return policy->model().routes[0].reservations;
  };
  EXPECT_FALSE(read(""));
  const auto whole = read(", reservations: {on_expiry: last_heartbeat, expire: 90s}");
  EXPECT_EQ(whole->on_expiry, OnExpiry::last_heartbeat);
  EXPECT_EQ(whole->expire, std::chrono::seconds(90));
  EXPECT_EQ(read(", reservations: {on_expiry: zero}")->expire, std::nullopt);
}

TEST(Policy, ReadsAWholeFile) {
  const auto policy = Policy::parse(kWhole, "weir.yaml");
  ASSERT_TRUE(policy) << policy.error().message;
  const Model& model = policy->model();
  EXPECT_EQ(model.store.url, "redis://127.0.0.1:6379/0");
  EXPECT_EQ(model.unmatched, policy::Unmatched::refuse);
  EXPECT_TRUE(model.unmatched_given);
  EXPECT_EQ(model.trusted_proxies.size(), 2u);
  EXPECT_EQ(model.ipv6_prefix, 56);
  EXPECT_EQ(model.header_profiles, kHeadersDelta | kHeadersEpoch);
  EXPECT_EQ(model.default_route, "search");
  EXPECT_EQ(model.text_sha256.size(), 64u);
  EXPECT_EQ(model.files, std::vector<std::string>{"weir.yaml"});
  ASSERT_EQ(model.routes.size(), 4u);

  const Route& login = model.routes[0];
  EXPECT_EQ(login.protects, Protects::security);
  EXPECT_EQ(login.when_store_fails, FailurePolicy::closed);
  EXPECT_FALSE(login.failure_policy_given);
  EXPECT_EQ(login.rules[0].name, "5 per minute by ip");
  EXPECT_EQ(login.rules[0].numbers.algorithm, Algorithm::sliding_log);
  EXPECT_EQ(login.rules[0].place.line, 12);
  EXPECT_EQ(login.rules[0].place.column, 9);
  EXPECT_EQ(login.matches[0].path, "/login");

  const Route& search = model.routes[1];
  EXPECT_EQ(search.when_store_fails, FailurePolicy::bounded);
  EXPECT_EQ(search.ceiling->text, "50 per second");
  EXPECT_EQ(search.ceiling->numbers.limit, 50u);
  EXPECT_EQ(search.matches[0].path, "/search/");
  EXPECT_TRUE(search.matches[0].prefix);
  EXPECT_EQ(search.matches[1].path, "/find");
  EXPECT_EQ(search.rules[0].by[0].name, "x-api-key");
  EXPECT_EQ(search.rules[0].by[0].text, "header:X-API-Key");

  const Route& exports = model.routes[2];
  EXPECT_EQ(exports.when_store_fails, FailurePolicy::settle);
  EXPECT_TRUE(exports.rules[1].meter);
  EXPECT_EQ(exports.overspend->cap, 50u);
  EXPECT_FALSE(exports.journal_always);
  EXPECT_EQ(exports.sources.size(), 1u);

  const Route& status = model.routes[3];
  EXPECT_EQ(status.when_store_fails, FailurePolicy::open);
  EXPECT_TRUE(status.failure_policy_given);
  EXPECT_TRUE(status.shadow);
  EXPECT_EQ(status.rules[0].numbers.burst, 100u);
  EXPECT_EQ(status.ceiling->numbers.burst, 50u);

  EXPECT_EQ(model.matcher->by_request("POST", "", "/login"), 0u);
  EXPECT_EQ(model.matcher->by_request("GET", "api.example", "/search/x"), 1u);
  EXPECT_EQ(model.matcher->by_name("status"), 3u);
}

TEST(Policy, DefaultsAreTheStatedOnes) {
  const auto policy = Policy::parse("routes: {a: {limits: [], protects: nothing}}");
  ASSERT_TRUE(policy) << policy.error().message;
  EXPECT_EQ(policy->model().store.url, "memory:");
  EXPECT_EQ(policy->model().store.memory_keys, 1'000'000u);
  EXPECT_EQ(policy->model().ipv6_prefix, 64);
  EXPECT_EQ(policy->model().header_profiles, kHeadersDraft10);
  EXPECT_TRUE(policy->model().trusted_proxies.empty());
}

TEST(Policy, ReadsTheLongFormOfAStore) {
  const auto policy = Policy::parse(R"(
store:
  url: rediss+sentinel://a,b:1/main
  fallback: "redis://c"
  deadline: 15% of 300ms
  connect_timeout: 1s
  username: ada
  password_file: /run/secrets/redis
  tls: {ca: ca.pem, cert: c.pem, key: k.pem, server_name: redis.example}
  prefix: shop
  clock: client
  startup: require
  breaker: {failures: 3, slow_call: 10ms, slow_rate: 25%, cooldown: 1s, max_cooldown: 9s, jitter: 0%}
  recovery: {steps: 2, step: 1s}
  workers: {of: 4, index: 3, name: eu-1, state: /var/lib/weir}
  regions: 2
  known_keys: 5000
routes: {a: {limits: [], protects: nothing}}
)");
  ASSERT_TRUE(policy) << policy.error().message;
  const policy::StoreSpec& store = policy->model().store;
  EXPECT_EQ(store.fallback_url, "redis://c");
  EXPECT_EQ(store.deadline, Nanos(45ms));
  EXPECT_EQ(store.deadline_text, "15% of 300ms");
  EXPECT_EQ(store.connect_timeout, Nanos(1s));
  EXPECT_EQ(store.password_file, "/run/secrets/redis");
  EXPECT_EQ(store.tls->server_name, "redis.example");
  EXPECT_EQ(store.prefix, "shop");
  EXPECT_TRUE(store.client_clock);
  EXPECT_EQ(store.startup, policy::Startup::require);
  EXPECT_EQ(store.breaker.failures, 3u);
  EXPECT_EQ(store.breaker.slow_call, Nanos(10ms));
  EXPECT_DOUBLE_EQ(store.breaker.slow_rate, 0.25);
  EXPECT_EQ(store.breaker.max_cooldown, Nanos(9s));
  EXPECT_DOUBLE_EQ(store.breaker.jitter, 0.0);
  EXPECT_EQ(store.recovery.steps, 2u);
  EXPECT_EQ(store.workers.of, 4u);
  EXPECT_EQ(store.workers.index, 3u);
  EXPECT_EQ(store.workers.name, "eu-1");
  EXPECT_EQ(store.workers.state, "/var/lib/weir");
  EXPECT_EQ(store.regions, 2u);
  EXPECT_EQ(store.known_keys, 5'000u);
}

TEST(Policy, CountsByGcraUnlessItGuardsSecurity) {
  EXPECT_EQ(rule_of("5 per minute").numbers.algorithm, Algorithm::gcra);
  EXPECT_EQ(rule_of("5 per minute", "protects: security").numbers.algorithm,
            Algorithm::sliding_log);
  EXPECT_EQ(rule_of("1000 per minute", "protects: security").numbers.algorithm,
            Algorithm::sliding_log);
  EXPECT_EQ(rule_of("5 per minute", "when_store_fails: closed").numbers.algorithm, Algorithm::gcra);
  EXPECT_EQ(rule_of("{requests: 2000, per: minute, algorithm: gcra}", "protects: security")
                .numbers.algorithm,
            Algorithm::gcra);
  EXPECT_NE(
      refusal(with_limits("[1001 per minute]", "protects: security")).find("say how it counts"),
      std::string::npos);
}

TEST(Policy, FollowsTheCalendarInFixedWindows) {
  const Rule day = rule_of("{requests: 5, per: day, algorithm: fixed_window}");
  EXPECT_EQ(day.numbers.calendar, limit::Calendar::day);
  const Rule quarter = rule_of("{requests: 5, per: 3 months, algorithm: fixed_window}");
  EXPECT_EQ(quarter.numbers.calendar, limit::Calendar::month);
  EXPECT_EQ(quarter.numbers.calendar_count, 3u);
  const Rule even = rule_of("5 per month");
  EXPECT_EQ(even.numbers.calendar, limit::Calendar::none);
  EXPECT_EQ(even.numbers.period_ns, Nanos(30 * 24h).count());
}

TEST(Policy, LetsWhenStoreFailsOutrankProtects) {
  const auto policy =
      with_limits("[5 per minute]", "protects: security\n    when_store_fails: open");
  ASSERT_TRUE(policy) << policy.error().message;
  EXPECT_EQ(policy->model().routes[0].when_store_fails, FailurePolicy::open);
  EXPECT_EQ(policy->model().routes[0].rules[0].numbers.algorithm, Algorithm::sliding_log);
}

TEST(Policy, NamesEveryChoiceWhereTheFailurePolicyIsMissing) {
  const std::string message = refusal(with_limits("[5 per minute]", ""));
  for (const std::string_view word : {"security", "side_effects", "capacity", "revenue", "nothing",
                                      "closed", "bounded", "settle", "open", "503"})
    EXPECT_NE(message.find(word), std::string::npos) << word << ": " << message;
}

TEST(Policy, ReportsAllFaultsOfAFileInOrder) {
  const std::string message = refusal(Policy::parse(
      "default: x\nroutes:\n  a: {limits: [5 per minut], protects: all}\n  b: {limit: []}\n", "f"));
  std::vector<int> lines;
  for (std::size_t at = message.find("f:"); at != message.npos; at = message.find("\nf:", at + 1))
    lines.push_back(std::stoi(message.substr(message.find(':', at) + 1)));
  EXPECT_EQ(lines, (std::vector<int>{1, 3, 3, 4, 4})) << message;
}

TEST(Policy, ReportsSoManyFaultsAndNoMore) {
  std::string text = "routes:\n";
  for (int i = 0; i < 500; ++i) text += "  r" + std::to_string(i) + ": 5\n";
  const std::string message = refusal(Policy::parse(text));
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 100);
  EXPECT_NE(message.find("and 400 more"), std::string::npos);
}

TEST(Policy, RefusesARouteWithTooManyLimits) {
  std::string limits = "[";
  for (int i = 1; i <= 33; ++i)
    limits += std::to_string(i) + " per " + std::to_string(i) + " hours,";
  EXPECT_NE(refusal(with_limits(limits + "]")).find("at most 32 items"), std::string::npos);
}

TEST(Policy, HoldsTenThousandRoutesAndNoMore) {
  std::string text = "routes:\n";
  for (int i = 0; i < 10'000; ++i)
    text += "  r" + std::to_string(i) + ": {limits: [5 per minute by ip], protects: nothing}\n";
  const auto policy = Policy::parse(text);
  ASSERT_TRUE(policy) << policy.error().message;
  EXPECT_EQ(policy->model().matcher->by_name("r9999"), 9'999u);
  EXPECT_NE(refusal(Policy::parse(text + "  one: {limits: [], protects: nothing}\n"))
                .find("at most 10000"),
            std::string::npos);
}

TEST(Policy, RefusesAFileAboveItsBound) {
  const std::string text = "routes: {}\n#" + std::string(16u << 20, 'x');
  EXPECT_NE(refusal(Policy::parse(text)).find("at most 16777216"), std::string::npos);
}

TEST(RuleIdentity, IsWhatIsCountedAndNeverHowMuch) {
  const auto identity = [](const std::string& limit) { return rule_of(limit).identity_text; };
  EXPECT_EQ(identity("'5 per minute by ip, user'"), "route 1:r by 2:ip 4:user per 1m gcra");
  EXPECT_EQ(identity("'9 per minute by user, ip'"), identity("'5 per minute by ip, user'"));
  EXPECT_EQ(identity("5 per 60 seconds by ip"), identity("5 per minute by ip"));
  EXPECT_EQ(identity("5 per minute by header:X-A"), identity("5 per minute by header:x-a"));
  EXPECT_EQ(identity("{requests: 5, per: minute, burst: 2}"), identity("7 per minute"));
  EXPECT_EQ(identity("{requests: 5, per: minute, by: ip, name: n}"),
            "name 1:n by 2:ip per 1m gcra");
  EXPECT_NE(identity("5 per minute by ip"), identity("5 per minute by user"));
  EXPECT_NE(identity("5 per minute by ip"), identity("5 per hour by ip"));
  EXPECT_NE(identity("{requests: 5, per: minute, algorithm: fixed_window}"),
            identity("5 per minute"));
  EXPECT_NE(identity("{requests: 5, per: day, algorithm: fixed_window}"),
            identity("{requests: 5, per: 24h, algorithm: fixed_window}"));
  // The hash stands in stores: another value would forget every counter at an upgrade.
  EXPECT_EQ(rule_of("'5 per minute by ip, user'").identity, 17290482268657341104u);
}

TEST(RuleIdentity, IsSharedByRulesOfOneNameAndEqualNumbers) {
  const auto file = [](int second) {
    return Policy::parse(
        "routes:\n  a: {limits: [{requests: 5, per: minute, name: n}], protects: "
        "nothing}\n  b: {limits: [{requests: " +
        std::to_string(second) + ", per: minute, name: n}], protects: nothing}\n");
  };
  const auto shared = file(5);
  ASSERT_TRUE(shared) << shared.error().message;
  EXPECT_EQ(shared->model().routes[0].rules[0].identity,
            shared->model().routes[1].rules[0].identity);
  EXPECT_NE(refusal(file(6)).find("with other numbers"), std::string::npos);
}

TEST(Rule, FindsItsSourcesInItsRoute) {
  const auto policy =
      with_limits("[1 per minute by user, ip, 2 per hour by ip, 3 per day by query:q]");
  // YAML ends the text at the comma; the message says so.
  EXPECT_NE(refusal(policy).find("'ip' is a source by itself"), std::string::npos);
  const auto good =
      with_limits("['1 per minute by user, ip', 2 per hour by ip, 3 per day by query:q]");
  ASSERT_TRUE(good) << good.error().message;
  const Route& route = good->model().routes[0];
  ASSERT_EQ(route.sources.size(), 3u);
  for (const Rule& rule : route.rules)
    for (std::size_t i = 0; i < rule.by.size(); ++i)
      EXPECT_EQ(rule.by[i], route.sources[rule.slots[i]]);
}

TEST(Rule, ExemptsBlocksOrValues) {
  const Rule by_ip =
      rule_of("{requests: 1, per: minute, by: [ip, user], exempt: [10.0.0.0/8, '::1']}");
  ASSERT_EQ(by_ip.exempt.size(), 2u);
  EXPECT_TRUE(contains(*by_ip.exempt[0].block, policy::Address::parse("10.1.1.1").value()));
  const Rule by_user = rule_of("{requests: 1, per: minute, by: user, exempt: [10.0.0.0/8, ada]}");
  EXPECT_FALSE(by_user.exempt[0].block);
  EXPECT_EQ(by_user.exempt[1].text, "ada");
}

TEST(Rule, OverridesNumbersForSingleValues) {
  const Rule rule = rule_of(
      "{requests: 10, per: minute, by: user, burst: 3, override: {ada: 100, bob: {requests: 7, "
      "burst: 7}, eve: 0}}");
  ASSERT_EQ(rule.overrides.size(), 3u);
  EXPECT_EQ(rule.overrides.find("ada")->second.limit, 100u);
  EXPECT_EQ(rule.overrides.find("ada")->second.burst, 3u);
  EXPECT_EQ(rule.overrides.find("bob")->second.burst, 7u);
  EXPECT_EQ(rule.overrides.find("eve")->second.limit, 0u);
  const Rule by_ip = rule_of("{requests: 10, per: minute, by: ip, override: {'2001:db8::5': 3}}");
  const auto group = policy::grouped(policy::Address::parse("2001:db8::77").value(), 64);
  ASSERT_NE(by_ip.overrides.find(policy::key_bytes(group)), by_ip.overrides.end());
}

TEST(PolicyOf, BuildsRoutesFromCode) {
  const auto policy = Policy::of({RouteSpec{
      .name = "login",
      .limits = {{.requests = 5, .per = 1min, .by = {"ip"}},
                 {.requests = 9, .per = 1h, .by = {"tenant", "header:X"}, .name = "hourly"}},
      .protects = Protects::security,
      .ceiling = LimitSpec{.requests = 50, .per = 1s}}});
  ASSERT_TRUE(policy) << policy.error().message;
  const Route& route = policy->model().routes[0];
  EXPECT_EQ(route.rules[0].numbers.algorithm, Algorithm::sliding_log);
  EXPECT_EQ(route.rules[0].name, "5 per 1m by ip");
  EXPECT_EQ(route.rules[1].name, "hourly");
  EXPECT_EQ(route.ceiling->numbers.limit, 50u);
  EXPECT_EQ(policy->model().inputs, std::vector<std::string>{"tenant"});
  EXPECT_EQ(policy->model().matcher->by_name("login"), 0u);
  // The same rule from a file has the same counters.
  const auto file =
      Policy::parse("routes: {login: {limits: [5 per minute by ip], protects: security}}");
  EXPECT_EQ(file->model().routes[0].rules[0].identity, route.rules[0].identity);
}

TEST(PolicyOf, RefusesWhatAFileWouldNotSay) {
  const auto refused = [](RouteSpec spec) { return !Policy::of({std::move(spec)}).has_value(); };
  const LimitSpec good{.requests = 5, .per = 1min};
  EXPECT_TRUE(refused({.name = "a", .limits = {good}}));
  EXPECT_TRUE(refused({.name = "", .limits = {good}, .protects = Protects::nothing}));
  EXPECT_TRUE(refused({.name = "a", .limits = {{.requests = 5}}, .protects = Protects::nothing}));
  EXPECT_TRUE(refused(
      {.name = "a", .limits = {{.requests = 5, .per = -1s}}, .protects = Protects::nothing}));
  EXPECT_TRUE(refused({.name = "a", .limits = {good, good}, .protects = Protects::nothing}));
  EXPECT_TRUE(refused({.name = "a",
                       .limits = {{.requests = 5, .per = 1s, .by = {"a b"}}},
                       .protects = Protects::nothing}));
  EXPECT_TRUE(refused({.name = "a",
                       .limits = {{.requests = 5, .per = 1s, .burst = 0}},
                       .protects = Protects::nothing}));
  EXPECT_TRUE(refused(
      {.name = "a", .limits = {{.requests = 2'000, .per = 1h}}, .protects = Protects::security}));
  EXPECT_TRUE(refused({.name = "a",
                       .limits = {good},
                       .protects = Protects::nothing,
                       .ceiling = LimitSpec{.requests = 0, .per = 1s}}));
  EXPECT_FALSE(Policy::of({{.name = "a", .limits = {good}, .protects = Protects::nothing},
                           {.name = "a", .limits = {good}, .protects = Protects::nothing}}));
  EXPECT_FALSE(refused({.name = "a", .limits = {good}, .protects = Protects::nothing}));
}

TEST(PolicyWithStore, TakesAnotherStoreAndLeavesItsCredentials) {
  const auto policy = Policy::parse(
      "store: {url: 'rediss://a', username: u, password_file: p, tls: {}, prefix: shop, deadline: "
      "7ms}\nroutes: {a: {limits: [5 per minute], protects: nothing}}");
  ASSERT_TRUE(policy) << policy.error().message;
  const auto other = policy->with_store("redis://b");
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(other->model().store.url, "redis://b");
  EXPECT_EQ(other->model().store.prefix, "shop");
  EXPECT_EQ(other->model().store.deadline, Nanos(7ms));
  EXPECT_TRUE(other->model().store.password_file.empty());
  EXPECT_FALSE(other->model().store.tls);
  EXPECT_EQ(other->model().matcher->by_name("a"), 0u);
  EXPECT_EQ(policy->model().store.url, "rediss://a");
  const auto bad = policy->with_store("redis://u:hunter2@h:x");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().message.find("hunter2"), std::string::npos) << bad.error().message;
}

TEST(PolicyLoad, ReadsAFileAndNamesItInMessages) {
  const auto path = std::filesystem::temp_directory_path() / "weir_policy_test.yaml";
  std::ofstream(path) << "routes: {a: {limits: [5 per minut], protects: nothing}}\n";
  const auto bad = Policy::load(path.string());
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, ErrorCode::invalid_argument);
  EXPECT_TRUE(bad.error().message.starts_with(path.string() + ":1:23: routes.a.limits[0]: "))
      << bad.error().message;
  EXPECT_EQ(Policy::lint(path.string()).size(), 1u);
  std::filesystem::remove(path);
  const auto missing = Policy::load(path.string());
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  EXPECT_EQ(Policy::lint(path.string()).size(), 1u);
  EXPECT_FALSE(Policy::load(std::filesystem::temp_directory_path().string()));
}

}  // namespace
}  // namespace weir
