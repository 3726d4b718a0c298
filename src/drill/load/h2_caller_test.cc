#include "drill/load/h2_caller.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <utility>

namespace weir::drill {
namespace {

std::string word(std::uint32_t value, int bytes) {
  std::string out;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    out += static_cast<char>(value >> shift & 0xff);
  }
  return out;
}

std::string settings(std::initializer_list<std::pair<std::uint32_t, std::uint32_t>> entries) {
  std::string payload;
  for (const auto& [id, value] : entries) payload += word(id, 2) + word(value, 4);
  return word(static_cast<std::uint32_t>(payload.size()), 3) + word(0x0400, 2) + word(0, 4) +
         payload;
}

constexpr const char* kCall = "0123456789";

// How many calls it begins at once, of at most ten.
int begins(const std::string& received) {
  H2Caller caller({.authority = "a", .path = "/p", .timeout = {}}, 10);
  std::string out;
  caller.start(out);
  EXPECT_TRUE(caller.feed(received, out, [](const CallReply&) {}));
  int count = 0;
  while (caller.can_call(10)) {
    caller.call(kCall, 0, out);
    ++count;
  }
  return count;
}

TEST(H2Caller, KeepsToThePeersNumberOfStreams) {
  EXPECT_EQ(begins(""), 10);
  EXPECT_EQ(begins(settings({{3, 4}})), 4);
  EXPECT_EQ(begins(settings({{3, 400}})), 10);
}

// grpc++ announces 0xfe03, which ends in the same byte.
TEST(H2Caller, PassesOverSettingsItDoesNotKnow) {
  EXPECT_EQ(begins(settings({{0xfe03, 1}, {0xfe04, 1}, {0x0103, 1}})), 10);
}

TEST(H2Caller, KeepsToThePeersWindow) {
  EXPECT_EQ(begins(settings({{4, 9}})), 0);
  EXPECT_EQ(begins(settings({{4, 10}})), 10);
}

}  // namespace
}  // namespace weir::drill
