#include "store/redis/physical_key.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "limit/numbers.h"
#include "policy/key.h"
#include "store/redis/topology/key_slot.h"

namespace weir::store::redis {
namespace {

using Values = std::vector<std::optional<std::string>>;

std::string structural(std::uint64_t identity, const Values& values) {
  static const ValueDigester digester = ValueDigester::from_text("test");
  std::vector<char> buffer(policy::KeyWriter::kMaxKeyBytes);
  policy::KeyWriter writer(buffer.data(), identity);
  for (const auto& value : values) {
    value ? writer.value(*value, digester) : writer.absent();
  }
  return std::string(writer.view());
}

std::string tag_of(const std::string& name) {
  // As Redis Cluster reads it: between the first '{' and the first '}' after it.
  const auto open = name.find('{');
  return name.substr(open + 1, name.find('}', open) - open - 1);
}

KeySpace space(std::string_view prefix = "weir") {
  return KeySpace::make(prefix, "").value();
}

// The examples of docs/internals/redis-keys.md.
TEST(KeySpace, NamesTheExamplesOfThePage) {
  constexpr std::uint64_t kIdentity = 0x0123456789abcdef;
  EXPECT_EQ(space().counter(structural(kIdentity, {{"192.0.2.7"}})),
            "weir:1:{z37h5w}782riWdFIwE/192.0.2.7");
  EXPECT_EQ(space().counter(structural(kIdentity, {{"{a}b"}})),
            "weir:1:{5x2tbx}782riWdFIwE/%7Ba%7Db");
  EXPECT_EQ(space().counter(structural(kIdentity, {std::nullopt})), "weir:1:{268k8n}782riWdFIwE/~");
  EXPECT_EQ(space().meta("", "epoch"), "weir:1:{!}epoch");
}

TEST(KeySpace, SharesATagBetweenRulesCountedByTheSameValues) {
  const std::string a = space().counter(structural(1, {{"192.0.2.7"}}));
  const std::string b = space().counter(structural(2, {{"192.0.2.7"}}));
  EXPECT_NE(a, b);
  EXPECT_EQ(tag_of(a), tag_of(b));
  // Rules that count everybody together do not crowd one slot.
  EXPECT_NE(tag_of(space().counter(structural(1, {}))), tag_of(space().counter(structural(2, {}))));
}

// What stands beside a counter is reached by the same call, and is another name.
TEST(KeySpace, PutsWhatStandsBesideACounterIntoItsSlot) {
  using policy::KeyWriter;
  static const ValueDigester digester = ValueDigester::from_text("test");
  constexpr std::uint64_t kOwn = KeyWriter::own_identity('k', 'e', 'y');
  std::set<std::string> names;
  for (const Values& values :
       {Values{}, Values{{"192.0.2.7"}}, Values{{"a"}, std::nullopt},
        Values{{std::string(65, 'x')}}, Values{{""}}, Values(8, {std::string(64, 'y')})}) {
    const std::string key = structural(7, values);
    ASSERT_FALSE(KeyWriter::is_own(key));
    for (const char* own : {"one", "two"}) {
      std::vector<char> buffer(KeyWriter::kMaxBesideBytes);
      KeyWriter writer(buffer.data(), kOwn);
      writer.beside(KeyWriter::place_of(key));
      writer.value(own, digester);
      EXPECT_TRUE(KeyWriter::is_own(writer.view()));
      EXPECT_EQ(space().slot(writer.view()), space().slot(key));
      const std::string name = space().counter(writer.view());
      EXPECT_EQ(tag_of(name), tag_of(space().counter(key)));
      names.insert(name);
    }
    names.insert(space().counter(key));
  }
  EXPECT_EQ(names.size(), 18u);
}

TEST(KeySpace, TriesANameOfACountersKindInTheSlotOfAShardsOwnKeys) {
  std::set<std::string> names;
  for (const std::string shard : {"", "a", "7", "1b", "zz9"}) {
    const std::string name = space().trial(shard);
    EXPECT_EQ(key_slot(name), key_slot(space().meta(shard, "epoch"))) << shard;
    const std::string like = space().counter(structural(7, {}));
    EXPECT_EQ(name.find('{'), like.find('{'));
    EXPECT_EQ(name.find('}'), like.find('}'));
    EXPECT_EQ(name.size(), like.size());
    names.insert(name);
  }
  EXPECT_EQ(names.size(), 5u);
}

TEST(KeySpace, TriesTheFirstTagOfThatSlot) {
  constexpr std::string_view kLetters = "0123456789abcdefghjkmnpqrstvwxyz";
  for (const std::string shard : {"", "a", "7"}) {
    const std::uint16_t slot = key_slot(space().meta(shard, "epoch"));
    std::string first(6, '0');
    for (std::size_t n = 1; key_slot(first) != slot; ++n) {
      for (std::size_t at = 0; at < first.size(); ++at) first[at] = kLetters[n >> (5 * at) & 31];
    }
    EXPECT_EQ(tag_of(space().trial(shard)), first) << shard;
  }
}

TEST(KeySpace, IsNotSteeredByBracesInValues) {
  std::set<std::string> tags;
  for (const char* value : {"{a}b", "}{", "{}", "{x}", "a{x}", "}{x}", "%7Bx%7D"}) {
    const std::string name = space().counter(structural(9, {{value}}));
    EXPECT_EQ(std::count(name.begin(), name.end(), '{'), 1) << name;
    EXPECT_EQ(std::count(name.begin(), name.end(), '}'), 1) << name;
    tags.insert(tag_of(name));
  }
  EXPECT_EQ(tags.size(), 7u);
}

TEST(KeySpace, KeepsApartWhatCouldReadAlike) {
  std::set<std::string> names;
  const std::vector<Values> all = {{},
                                   {{""}},
                                   {std::nullopt},
                                   {{"~"}},
                                   {{"a"}, {"b"}},
                                   {{"a/b"}},
                                   {{"a_b"}},
                                   {{"a%2Fb"}},
                                   {{"ab"}, {""}},
                                   {{""}, {"ab"}},
                                   {{"#"}},
                                   {{std::string(65, 'x')}},
                                   {{"a!b"}},
                                   {{"A"}},
                                   {{"a\n"}},
                                   {{std::string("a\0", 2)}},
                                   {{"a "}},
                                   {{"\xc3\xa4"}},
                                   {{"a"}, std::nullopt},
                                   {std::nullopt, {"a"}}};
  for (const Values& values : all) names.insert(space().counter(structural(7, values)));
  names.insert(space().counter(structural(8, {{"a"}, {"b"}})));
  names.insert(space("weir:1").counter(structural(7, {{"a"}, {"b"}})));
  std::string record;
  space().append_record(structural(7, {{"a"}}), 1, Instant{}, record);
  names.insert(record);
  std::string total;
  space().append_total(structural(7, {{"a"}}), Instant{}, total);
  names.insert(total);
  names.insert(space().meta("", "epoch"));
  EXPECT_EQ(names.size(), all.size() + 5);
  for (const std::string& name : names) {
    for (const char c : name) EXPECT_TRUE(c > ' ' && c < 0x7f) << name;
  }
}

TEST(KeySpace, IsInjectiveOverRandomKeys) {
  std::mt19937_64 random(20240607);
  std::set<std::string> keys;
  std::set<std::string> names;
  const std::string alphabet("ab/{}%~#!:\0\xff", 13);
  for (int i = 0; i < 20'000; ++i) {
    Values values(random() % 3);
    for (auto& value : values) {
      if (random() % 8 == 0) continue;
      value.emplace();
      for (auto n = random() % 4; n > 0; --n) *value += alphabet[random() % alphabet.size()];
    }
    const std::string key = structural(random() % 2, values);
    keys.insert(key);
    names.insert(space().counter(key));
  }
  EXPECT_EQ(keys.size(), names.size());
}

TEST(KeySpace, KeepsTwoPrefixesApart) {
  const std::string key = structural(7, {{"a"}});
  EXPECT_NE(space("staging").counter(key), space("production").counter(key));
  EXPECT_NE(KeySpace::make("weir", "s1").value().counter(key), space("weir").counter(key));
}

TEST(KeySpace, RefusesAPrefixThatCouldSteerOrHide) {
  for (const char* prefix : {"", "a{b}", "a b", "a\n", "a!", "a/b"}) {
    const auto made = KeySpace::make(prefix, "");
    ASSERT_FALSE(made.has_value()) << prefix;
    EXPECT_EQ(made.error().code, ErrorCode::invalid_argument);
  }
  EXPECT_FALSE(KeySpace::make(std::string(65, 'a'), "").has_value());
}

// The same names that envoyproxy/ratelimit makes at 2024-05-04 12:30:15 UTC.
TEST(KeySpace, EndsAnEnvoyproxyNameWithTheStartOfItsWindow) {
  constexpr Instant kThen{std::chrono::seconds(1'714'825'815)};
  const auto name = [&](Nanos length) {
    const auto numbers = limit::Numbers::make(
        {.algorithm = Algorithm::fixed_window, .limit = 10, .period = {.length = length}});
    std::string out;
    KeySpace::append_envoyproxy("12345678domain_key_value_", limit::window_at(*numbers, kThen),
                                out);
    return out;
  };
  using std::chrono::hours;
  EXPECT_EQ(name(std::chrono::seconds(1)), "domain_key_value_1714825815");
  EXPECT_EQ(name(std::chrono::minutes(1)), "domain_key_value_1714825800");
  EXPECT_EQ(name(std::chrono::minutes(5)), "domain_key_value_1714825800");
  EXPECT_EQ(name(hours(1)), "domain_key_value_1714824000");
  EXPECT_EQ(name(hours(24)), "domain_key_value_1714780800");
  EXPECT_EQ(name(hours(24 * 7)), "domain_key_value_1714608000") << "weeks begin on Thursdays";
  EXPECT_EQ(name(hours(24 * 30)), "domain_key_value_1713312000");
  EXPECT_EQ(name(hours(24 * 365)), "domain_key_value_1702944000");
}

// As Redis itself: by what stands in the first braces, or by all of it; in each window another one.
TEST(KeySpace, KnowsTheSlotOfAnEnvoyproxyName) {
  const auto slot = [](std::string_view key, std::int64_t start) {
    return KeySpace::envoyproxy_slot(key, {.start_ns = start * 1'000'000'000, .end_ns = 0});
  };
  EXPECT_EQ(slot("12345678d_k_v_", 60), key_slot("d_k_v_60"));
  EXPECT_NE(slot("12345678d_k_v_", 60), slot("12345678d_k_v_", 120));
  EXPECT_EQ(slot("12345678d_k_{v}_", 60), slot("12345678d_k_{v}_", 120));
}

}  // namespace
}  // namespace weir::store::redis
