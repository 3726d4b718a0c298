#include "policy/store_url.h"

#include <gtest/gtest.h>

namespace weir::policy {
namespace {

TEST(StoreUrl, TheIdentityOfAStoreHasNothingOfWhoAsks) {
  EXPECT_EQ(store_identity("redis://h"), "redis://h");
  EXPECT_EQ(store_identity("rediss://h:6380/3"), "rediss://h:6380/3");
  EXPECT_EQ(store_identity("redis://ada:s@h:1/2"), "redis://h:1/2");
  EXPECT_EQ(store_identity("redis://:a@b@h"), "redis://h");
  EXPECT_EQ(store_identity("redis+unix://:p@/run/redis.sock"), "redis+unix:///run/redis.sock");
  EXPECT_EQ(store_identity("redis+sentinel://u:p@a,b/main/1"), "redis+sentinel://a,b/main/1");
}

TEST(StoreUrl, TakesEveryFormApart) {
  EXPECT_EQ(parse_store_url("memory:").value().kind, StoreKind::memory);

  const StoreUrl plain = parse_store_url("redis://127.0.0.1:6380/3").value();
  EXPECT_EQ(plain.kind, StoreKind::redis);
  EXPECT_FALSE(plain.tls);
  ASSERT_EQ(plain.hosts.size(), 1u);
  EXPECT_EQ(plain.hosts[0].host, "127.0.0.1");
  EXPECT_EQ(plain.hosts[0].port, 6380);
  EXPECT_EQ(plain.database, 3u);

  const StoreUrl secure = parse_store_url("rediss://ada:p%40ss@[2001:db8::1]").value();
  EXPECT_TRUE(secure.tls);
  EXPECT_EQ(secure.username, "ada");
  EXPECT_EQ(secure.password, "p@ss");
  EXPECT_EQ(secure.hosts[0].host, "2001:db8::1");
  EXPECT_EQ(secure.hosts[0].port, 6379);

  const StoreUrl local = parse_store_url("redis+unix:///run/redis.sock").value();
  EXPECT_EQ(local.kind, StoreKind::unix_socket);
  EXPECT_EQ(local.path, "/run/redis.sock");

  const StoreUrl watched = parse_store_url("redis+sentinel://:pw@a,b:26380/main/2").value();
  EXPECT_EQ(watched.kind, StoreKind::sentinel);
  EXPECT_EQ(watched.username, "");
  EXPECT_EQ(watched.password, "pw");
  ASSERT_EQ(watched.hosts.size(), 2u);
  EXPECT_EQ(watched.hosts[0].port, 26379);
  EXPECT_EQ(watched.hosts[1].port, 26380);
  EXPECT_EQ(watched.master, "main");
  EXPECT_EQ(watched.database, 2u);

  const StoreUrl many = parse_store_url("redis+cluster://a:1,b:2,c").value();
  EXPECT_EQ(many.kind, StoreKind::cluster);
  EXPECT_EQ(many.hosts.size(), 3u);
}

TEST(StoreUrl, RefusesWhatItCannotMean) {
  for (const std::string_view url : {"",
                                     "memory",
                                     "memory:x",
                                     "redis:",
                                     "redis://",
                                     "redis:///1",
                                     "redis://h:0",
                                     "redis://h:70000",
                                     "redis://h:x",
                                     "redis://h/x",
                                     "redis://h/70000",
                                     "redis://a,b",
                                     "redis://h?db=1",
                                     "redis://h#1",
                                     "redis://[::1",
                                     "redis://[1.2.3.4]",
                                     "redis://[::1]x",
                                     "redis://-h",
                                     "redis://h h",
                                     "redis+unix://relative",
                                     "redis+unix:///",
                                     "redis+sentinel://a",
                                     "redis+sentinel://a/",
                                     "redis+cluster://a/1",
                                     "redis+cluster://a,,b",
                                     "http://h",
                                     "redis://%zz@h",
                                     "REDIS://h"})
    EXPECT_FALSE(parse_store_url(url).has_value()) << url;
}

TEST(StoreUrl, NeverShowsWhatMayBeAPassword) {
  EXPECT_EQ(redacted("redis://ada:secret@h:1/2"), "redis://***@h:1/2");
  EXPECT_EQ(redacted("redis://:sec@ret@h"), "redis://***@h");
  EXPECT_EQ(redacted("redis://:sec/ret@h"), "redis://***@h");
  EXPECT_EQ(redacted("redis:ada:secret@h"), "***@h");
  EXPECT_EQ(redacted("redis://h/0?password=secret"), "redis://h/0");
  EXPECT_EQ(redacted("ada:secret@h"), "***@h");
  EXPECT_EQ(redacted("memory:"), "memory:");
  EXPECT_EQ(redacted("mail@example"), "mail@example");
  EXPECT_EQ(redacted("ada:secret@redis://h"), "***@redis://h");
  EXPECT_EQ(redacted("redis://h/0#secret"), "redis://h/0");
  // The '@' and the host forgotten, or cut off.
  EXPECT_EQ(redacted("redis://:secret"), "redis://***");
  EXPECT_EQ(redacted("redis://:12345"), "redis://***");
  EXPECT_EQ(redacted("redis://:sec/ret"), "redis://***");
  EXPECT_EQ(redacted("redis://:sec,ret?x"), "redis://***");
  EXPECT_EQ(redacted("redis://ada:secret"), "redis://ada:***");
  EXPECT_EQ(redacted("redis://ada:123456/0"), "redis://ada:***");
  EXPECT_EQ(redacted("redis://h:6379,ada:secret"), "redis://h:6379,ada:***");
  EXPECT_EQ(redacted("redis+unix://:secret/run/redis.sock"), "redis+unix://***");
  EXPECT_EQ(redacted("redis::secret"), "redis:***");
  EXPECT_EQ(redacted("redis:ada:secret"), "redis:ada:***");
  EXPECT_EQ(redacted("rediss:/:secret"), "rediss:/***");
  // What names a store is shown.
  for (const std::string_view plain :
       {"redis://h", "redis://h:6379/2", "redis://h:/2", "redis://", "redis://[::1]:6379/0",
        "redis+unix:///run/a:b.sock", "redis+sentinel://a:1,b,[::2]/main/3", "redis:6379",
        "redis:", "redis", "header:X-API-Key", "redis://h:99999"})
    EXPECT_EQ(redacted(plain), plain);
  for (const std::string_view url :
       {"redis://ada:secret@h:99999", "redis://ada:secret@h h", "redis://secret%zz@h",
        "redis://h?secret", "redis+cluster://:secret@a/9", "secret://secret@h"}) {
    const auto parsed = parse_store_url(url);
    ASSERT_FALSE(parsed.has_value()) << url;
    EXPECT_EQ(parsed.error().message.find("secret"), std::string::npos) << parsed.error().message;
  }
}

}  // namespace
}  // namespace weir::policy
