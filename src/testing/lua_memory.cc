#include "testing/lua_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace weir::testing {

void* LuaMemory::take(std::size_t size) {
  if (size > kMost) return std::malloc(size);
  const std::size_t step = step_of(size);
  if (Free* const found = free_[step]) {
    free_[step] = found->next;
    return found;
  }
  const std::size_t bytes = step * kStep;
  if (left_ < bytes) {
    chunks_.push_back(std::make_unique<std::byte[]>(kChunk));
    next_ = chunks_.back().get();
    left_ = kChunk;
  }
  left_ -= bytes;
  return std::exchange(next_, next_ + bytes);
}

void LuaMemory::give_back(void* old, std::size_t size) {
  if (size > kMost) {
    std::free(old);
    return;
  }
  auto* const free = static_cast<Free*>(old);
  free->next = free_[step_of(size)];
  free_[step_of(size)] = free;
}

void* LuaMemory::allocate(void* memory, void* old, std::size_t old_size, std::size_t new_size) {
  auto& self = *static_cast<LuaMemory*>(memory);
  if (old == nullptr) return new_size == 0 ? nullptr : self.take(new_size);
  if (new_size == 0) {
    self.give_back(old, old_size);
    return nullptr;
  }
  if (old_size > kMost && new_size > kMost) return std::realloc(old, new_size);
  if (old_size <= kMost && new_size <= kMost && step_of(old_size) == step_of(new_size)) return old;
  void* const moved = self.take(new_size);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, old, std::min(old_size, new_size));
  self.give_back(old, old_size);
  return moved;
}

}  // namespace weir::testing
