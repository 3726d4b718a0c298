#include "server/grpc/block_pool.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace weir::server::grpc {

BlockPool::~BlockPool() {
  for (Head* head : kept_heads_) {
    while (head != nullptr) {
      Head* const next = head->next;
      std::free(head);
      head = next;
    }
  }
}

void* BlockPool::take(std::size_t bytes) noexcept {
  const std::size_t size_class = class_of(std::max<std::size_t>(1, bytes));
  if (size_class > kClasses) {
    void* const memory = std::malloc(sizeof(Head) + bytes);
    if (memory == nullptr) return nullptr;
    return ::new (memory) Head{bytes} + 1;
  }
  const std::size_t room = size_class * kStep;
  if (Head* const head = kept_heads_[size_class]) {
    kept_heads_[size_class] = head->next;
    kept_ -= room;
    return head + 1;
  }
  void* const memory = std::malloc(sizeof(Head) + room);
  return memory == nullptr ? nullptr : ::new (memory) Head{room} + 1;
}

void BlockPool::give(void* block) noexcept {
  if (block == nullptr) return;
  Head* const head = static_cast<Head*>(block) - 1;
  if (head->room > kClasses * kStep || kept_ + head->room > kMostKept) return std::free(head);
  const std::size_t size_class = class_of(head->room);
  head->next = kept_heads_[size_class];
  kept_heads_[size_class] = head;
  kept_ += head->room;
}

void* BlockPool::resize(void* block, std::size_t bytes) noexcept {
  if (block == nullptr) return take(bytes);
  const std::size_t room = (static_cast<Head*>(block) - 1)->room;
  if (bytes <= room) return block;
  void* const larger = take(bytes);
  if (larger == nullptr) return nullptr;
  std::memcpy(larger, block, room);
  give(block);
  return larger;
}

}  // namespace weir::server::grpc
