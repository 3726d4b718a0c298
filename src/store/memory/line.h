#pragma once

#include <sched.h>

#include <atomic>
#include <bit>
#include <cstdint>

#include "base/key_digest.h"

namespace weir::store {

// One cache line: a lock and three counters.
//
//   offset  bytes  what
//        0      4  meta: bit 0 lock; bits 1-30 the high ten bits of each slot's numbers id;
//                  bit 31 some key that is at home here may stand in a later line
//        4   3×4  aux   what of a counter's state does not fit its word
//       16   3×8  tag   bits 8-63 the key's fingerprint; bits 5-7 how many lines after its home it
//                       stands; bits 0-4 the low bits of its numbers id
//       40   3×8  word  the counter's state
//
// A slot is empty where its numbers id is 0; its tag is 0 then. Everything is read and written
// under the lock, but for tags, which may be read without it as a hint.
struct alignas(64) Line {
  static constexpr unsigned kSlots = 3;
  static constexpr unsigned kProbe = 8;  // a key stands in its home line or in one of 7 after it

  std::uint32_t meta;
  std::uint32_t aux[kSlots];
  std::uint64_t tag[kSlots];
  std::uint64_t word[kSlots];
};
static_assert(sizeof(Line) == 64);

inline constexpr std::uint32_t kLineLocked = 1;
inline constexpr std::uint32_t kLineOverflowed = std::uint32_t{1} << 31;
inline constexpr unsigned kNumbersIdBits = 15;

// A line that this thread has locked. `meta` is the line's, without the lock bit; what is changed
// in it reaches the line at unlock.
struct Held {
  Line* line;
  std::uint32_t meta;
};

inline std::uint64_t load_tag(const Line& line, unsigned slot) noexcept {
  return std::atomic_ref(const_cast<Line&>(line).tag[slot]).load(std::memory_order_relaxed);
}
inline void store_tag(Line& line, unsigned slot, std::uint64_t tag) noexcept {
  std::atomic_ref(line.tag[slot]).store(tag, std::memory_order_relaxed);
}

inline bool try_lock(Line& line, std::uint32_t& meta) noexcept {
  std::atomic_ref word(line.meta);
  std::uint32_t seen = word.load(std::memory_order_relaxed);
  if ((seen & kLineLocked) != 0) return false;
  if (!word.compare_exchange_strong(seen, seen | kLineLocked, std::memory_order_acquire,
                                    std::memory_order_relaxed)) {
    return false;
  }
  meta = seen;
  return true;
}

inline void relax_in_spin(unsigned spin) noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
  // Whoever holds the line has lost its processor, most likely.
  if (spin % 64 == 63) sched_yield();
}

// Out of line, so that the common case stays short.
[[gnu::noinline, gnu::cold]] inline std::uint32_t lock_slowly(Line& line) noexcept {
  std::uint32_t meta = 0;
  for (unsigned spin = 0; !try_lock(line, meta); ++spin) relax_in_spin(spin);
  return meta;
}
inline std::uint32_t lock(Line& line) noexcept {
  std::uint32_t meta = 0;
  return try_lock(line, meta) ? meta : lock_slowly(line);
}

inline void unlock(Line& line, std::uint32_t meta) noexcept {
  std::atomic_ref(line.meta).store(meta, std::memory_order_release);
}

// The tag a key has in the line `distance` lines after its home, less its numbers id.
inline std::uint64_t tag_of(const KeyDigest& digest, unsigned distance) noexcept {
  return (digest.lo & ~std::uint64_t{0xff}) | (std::uint64_t{distance} << 5);
}
inline unsigned distance_of(std::uint64_t tag) noexcept {
  return static_cast<unsigned>(tag >> 5) & 7;
}
inline bool same_key(std::uint64_t tag, std::uint64_t wanted) noexcept {
  return (tag ^ wanted) < 32;
}

inline unsigned slot_id(const Line& line, std::uint32_t meta, unsigned slot) noexcept {
  return static_cast<unsigned>(load_tag(line, slot) & 31) |
         (((meta >> (1 + 10 * slot)) & 1023) << 5);
}

inline void set_slot_key(Held& held, unsigned slot, std::uint64_t tag, unsigned id) noexcept {
  store_tag(*held.line, slot, tag | (id & 31));
  const unsigned shift = 1 + 10 * slot;
  held.meta = (held.meta & ~(std::uint32_t{1023} << shift)) | ((id >> 5) << shift);
}
inline void clear_slot(Held& held, unsigned slot) noexcept {
  store_tag(*held.line, slot, 0);
  held.meta &= ~(std::uint32_t{1023} << (1 + 10 * slot));
  held.line->aux[slot] = 0;
  held.line->word[slot] = 0;
}

// Where in the line the wanted key stands, or -1. Without branches: which slot it is cannot be
// predicted.
inline int find_slot(const Line& line, std::uint32_t meta, std::uint64_t wanted) noexcept {
  const unsigned hits = static_cast<unsigned>(same_key(load_tag(line, 0), wanted)) |
                        (static_cast<unsigned>(same_key(load_tag(line, 1), wanted)) << 1) |
                        (static_cast<unsigned>(same_key(load_tag(line, 2), wanted)) << 2);
  if (hits == 0) return -1;
  const int slot = std::countr_zero(hits);
  if (slot_id(line, meta, static_cast<unsigned>(slot)) != 0) return slot;
  // A fingerprint of 0 looks like an empty slot; the key may stand behind it.
  for (unsigned i = 0; i < Line::kSlots; ++i) {
    if (same_key(load_tag(line, i), wanted) && slot_id(line, meta, i) != 0)
      return static_cast<int>(i);
  }
  return -1;
}

inline int find_empty_slot(const Line& line, std::uint32_t meta) noexcept {
  for (unsigned i = 0; i < Line::kSlots; ++i) {
    if (slot_id(line, meta, i) == 0) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace weir::store
