#include "testing/allocations.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace {

thread_local std::uint64_t count = 0;

void* counted(std::size_t bytes) noexcept {
  ++count;
  return std::malloc(std::max<std::size_t>(bytes, 1));
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

namespace weir::testing {

std::uint64_t allocations() noexcept {
  return count;
}

}  // namespace weir::testing

// The array forms come down to these. Not inlined, or the compiler takes malloc and delete for a
// mismatch.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  return or_throw(counted(bytes));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes);
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  ++count;
  const auto align = static_cast<std::size_t>(alignment);
  return or_throw(std::aligned_alloc(align, (bytes + align - 1) / align * align));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
