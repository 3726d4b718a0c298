#include "server/grpc/deframer.h"

#include <gtest/gtest.h>

#include "server/grpc/test_client.h"

namespace weir::server::grpc {
namespace {

using Event = Deframer::Event;

TEST(Deframer, HandsOverWholeMessagesWithoutCopying) {
  Deframer deframer;
  const std::string wire = framed("one") + framed("") + framed("three");
  std::string_view bytes = wire;
  std::string_view message;
  ASSERT_EQ(deframer.next(bytes, 100, message), Event::message);
  EXPECT_EQ(message, "one");
  EXPECT_EQ(message.data(), wire.data() + 5);
  ASSERT_EQ(deframer.next(bytes, 100, message), Event::message);
  EXPECT_EQ(message, "");
  ASSERT_EQ(deframer.next(bytes, 100, message), Event::message);
  EXPECT_EQ(message, "three");
  EXPECT_EQ(deframer.next(bytes, 100, message), Event::more);
  EXPECT_EQ(deframer.held(), 0U);
}

TEST(Deframer, GivesTheSameMessagesHoweverTheBytesAreCut) {
  const std::string wire = framed("alpha") + framed("") + framed(std::string(300, 'b'));
  for (std::size_t step = 1; step <= wire.size(); ++step) {
    Deframer deframer;
    std::vector<std::string> messages;
    for (std::size_t at = 0; at < wire.size(); at += step) {
      std::string_view bytes = std::string_view(wire).substr(at, step);
      std::string_view message;
      while (deframer.next(bytes, 1000, message) == Event::message) messages.emplace_back(message);
      ASSERT_TRUE(bytes.empty());
    }
    ASSERT_EQ(messages.size(), 3U) << step;
    EXPECT_EQ(messages[0], "alpha");
    EXPECT_EQ(messages[1], "");
    EXPECT_EQ(messages[2], std::string(300, 'b'));
    EXPECT_EQ(deframer.held(), 0U);
  }
}

TEST(Deframer, RefusesALongMessageBeforeItComes) {
  Deframer deframer;
  const std::string wire = framed(std::string(101, 'x')).substr(0, 6);
  std::string_view bytes = wire;
  std::string_view message;
  EXPECT_EQ(deframer.next(bytes, 100, message), Event::too_large);
}

TEST(Deframer, NamesCompressionAndNonsense) {
  std::string_view message;
  const std::string squeezed = framed("x", 1);
  std::string_view bytes = squeezed;
  EXPECT_EQ(Deframer().next(bytes, 100, message), Event::compressed);
  bytes = "\x02";
  EXPECT_EQ(Deframer().next(bytes, 100, message), Event::malformed);
}

TEST(Deframer, HoldsWhatIsIncomplete) {
  Deframer deframer;
  const std::string wire = framed("abcdef");
  std::string_view bytes = std::string_view(wire).substr(0, 7);
  std::string_view message;
  EXPECT_EQ(deframer.next(bytes, 100, message), Event::more);
  EXPECT_EQ(deframer.held(), 7U);
  deframer.reset(0);
  EXPECT_EQ(deframer.held(), 0U);
}

}  // namespace
}  // namespace weir::server::grpc
