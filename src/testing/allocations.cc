#include "testing/allocations.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WEIR_KEEPS_MALLOC 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WEIR_KEEPS_MALLOC 1
#endif
#endif

namespace {

thread_local std::uint64_t count = 0;

}  // namespace

namespace weir::testing {

std::uint64_t allocations() noexcept {
  return count;
}

}  // namespace weir::testing

#ifndef WEIR_KEEPS_MALLOC

// The operators new come down to these.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t items, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) noexcept {
  ++count;
  return __libc_malloc(bytes);
}
void* calloc(std::size_t items, std::size_t bytes) noexcept {
  ++count;
  return __libc_calloc(items, bytes);
}
void* realloc(void* memory, std::size_t bytes) noexcept {
  ++count;
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  ++count;
  return __libc_memalign(alignment, bytes);
}
}

#else

namespace {

void* counted(std::size_t bytes) noexcept {
  ++count;
  return std::malloc(std::max<std::size_t>(bytes, 1));
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

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

#endif
