#include "ledger/packed_events.h"

#include <gtest/gtest.h>

#include <vector>

namespace weir::ledger {
namespace {

std::vector<std::string> unpacked(std::string_view packed, std::size_t count) {
  std::vector<std::string> out;
  unpack(packed, count, [&](std::string_view event) { out.emplace_back(event); });
  return out;
}

EventBatch batch() {
  EventBatch events;
  for (const std::size_t size : {1u, 127u, 128u, 8'192u})
    events.add_encoded(std::string(size, 'e'));
  return events;
}

TEST(PackedEvents, ComeOutAsTheyWentIn) {
  const EventBatch events = batch();
  const auto out = unpacked(pack(events), events.size());
  ASSERT_EQ(out.size(), events.size());
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], events[i]);
  EXPECT_EQ(unpacked(pack("one"), 1), std::vector<std::string>{"one"});
}

TEST(PackedEvents, CutAtAnyByteLoseTheirEndAndKeepTheirNumber) {
  const EventBatch events = batch();
  const std::string packed = pack(events);
  for (std::size_t length = 0; length < packed.size(); ++length) {
    const auto out = unpacked(std::string_view(packed).substr(0, length), events.size());
    ASSERT_EQ(out.size(), events.size()) << "numbers belong to events that are damaged, too";
    bool whole = true;
    for (std::size_t i = 0; i < out.size(); ++i) {
      whole = whole && out[i] == events[i];
      ASSERT_TRUE(whole || out[i].empty()) << length;
    }
  }
}

TEST(PackedEvents, WithALengthThatLiesAllocateNothing) {
  EXPECT_EQ(unpacked("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 2),
            (std::vector<std::string>{"", ""}));
  EXPECT_EQ(unpacked(std::string("\xff\xff\xff\xff\x0f") + "short", 1),
            std::vector<std::string>{""});
}

}  // namespace
}  // namespace weir::ledger
