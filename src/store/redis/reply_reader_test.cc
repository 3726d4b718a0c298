#include "store/redis/reply_reader.h"

#include <gtest/gtest.h>

namespace weir::store::redis {
namespace {

using Next = ReplyReader::Next;

TEST(ReplyReader, ReadsRepliesInOrderHoweverTheyAreCut) {
  constexpr char kStream[] =
      "+OK\r\n-ERR no\r\n:-7\r\n$3\r\na\0b\r\n$-1\r\n*3\r\n:1\r\n$2\r\nxy\r\n$-1\r\n";
  const std::string stream(kStream, sizeof(kStream) - 1);
  for (std::size_t chunk = 1; chunk <= stream.size(); ++chunk) {
    ReplyReader reader;
    std::string seen;
    for (std::size_t at = 0; at < stream.size(); at += chunk) {
      ASSERT_TRUE(reader.feed(std::string_view(stream).substr(at, chunk)));
      while (reader.next() == Next::reply) {
        const Reply reply = reader.reply();
        seen += static_cast<char>('0' + static_cast<int>(reply.root().type));
        if (reply.root().type == ReplyType::array) {
          ASSERT_TRUE(reply.is_flat_array(3));
          EXPECT_FALSE(reply.is_flat_array(2));
          EXPECT_EQ(reply.at(0).integer, 1);
          EXPECT_EQ(reply.text(reply.at(1)), "xy");
          EXPECT_EQ(reply.at(2).type, ReplyType::nil);
        } else if (reply.root().type == ReplyType::string) {
          EXPECT_EQ(reply.text(reply.root()), std::string_view("a\0b", 3));
        } else if (reply.root().type == ReplyType::error) {
          EXPECT_EQ(reply.error(), "ERR no");
        } else if (reply.root().type == ReplyType::integer) {
          EXPECT_EQ(reply.root().integer, -7);
        }
      }
    }
    EXPECT_EQ(seen, "123045") << chunk;
  }
}

TEST(ReplyReader, BreaksForGoodOnWhatIsNotRedis) {
  ReplyReader reader;
  ASSERT_TRUE(reader.feed("HTTP/1.1 400 Bad Request\r\n"));
  EXPECT_EQ(reader.next(), Next::broken);
  EXPECT_FALSE(reader.feed("+OK\r\n"));
  EXPECT_EQ(reader.next(), Next::broken);
  reader.reset();
  ASSERT_TRUE(reader.feed("+OK\r\n"));
  EXPECT_EQ(reader.next(), Next::reply);
}

TEST(ReplyReader, RefusesMoreThanItsBound) {
  ReplyReader array;
  ASSERT_TRUE(array.feed("*1000000000\r\n"));
  EXPECT_EQ(array.next(), Next::broken);

  ReplyReader bulk;
  ASSERT_TRUE(bulk.feed("$1000000000\r\n"));
  EXPECT_EQ(bulk.next(), Next::need_more);
  const std::string filler(64 * 1024, 'x');
  bool fed = true;
  for (int i = 0; i < 20 && fed; ++i) {
    fed = bulk.feed(filler);
    if (fed) {
      EXPECT_EQ(bulk.next(), Next::need_more);
    }
  }
  EXPECT_FALSE(fed);
  EXPECT_EQ(bulk.next(), Next::broken);
}

}  // namespace
}  // namespace weir::store::redis
