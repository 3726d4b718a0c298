#include "server/grpc/block_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace weir::server::grpc {
namespace {

TEST(BlockPool, GivesTheSameBlockAgain) {
  BlockPool pool;
  void* const first = pool.take(100);
  pool.give(first);
  EXPECT_GE(pool.kept(), 100U);
  EXPECT_EQ(pool.take(128), first);
  EXPECT_EQ(pool.kept(), 0U);
  pool.give(first);
}

TEST(BlockPool, KeepsNoMoreThanItMay) {
  BlockPool pool;
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < BlockPool::kMostKept / 4096 + 100; ++i) {
    blocks.push_back(pool.take(4096));
  }
  for (void* block : blocks) pool.give(block);
  EXPECT_LE(pool.kept(), BlockPool::kMostKept);
  // What is large is not kept at all.
  const std::size_t before = pool.kept();
  pool.give(pool.take(1U << 20U));
  EXPECT_EQ(pool.kept(), before);
}

TEST(BlockPool, BlocksDoNotOverlapAndKeepTheirBytes) {
  BlockPool pool;
  std::mt19937 random(3);
  struct Held {
    char* bytes;
    std::size_t size;
    char mark;
  };
  std::vector<Held> held;
  for (int i = 0; i < 20'000; ++i) {
    if (held.size() < 50 || random() % 2 == 0) {
      const std::size_t size = random() % 6000;
      const char mark = static_cast<char>(random());
      auto* const bytes = static_cast<char*>(pool.take(size));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes) % alignof(std::max_align_t), 0U);
      std::memset(bytes, mark, size);
      held.push_back({bytes, size, mark});
      continue;
    }
    Held& one = held[random() % held.size()];
    for (std::size_t k = 0; k < one.size; ++k) ASSERT_EQ(one.bytes[k], one.mark);
    if (random() % 3 == 0) {
      const std::size_t size = one.size + random() % 3000;
      one.bytes = static_cast<char*>(pool.resize(one.bytes, size));
      for (std::size_t k = 0; k < one.size; ++k) ASSERT_EQ(one.bytes[k], one.mark);
      std::memset(one.bytes, one.mark, size);
      one.size = size;
    } else {
      pool.give(one.bytes);
      one = held.back();
      held.pop_back();
    }
  }
  for (const Held& one : held) pool.give(one.bytes);
  pool.give(nullptr);
  pool.give(pool.resize(nullptr, 10));
}

}  // namespace
}  // namespace weir::server::grpc
