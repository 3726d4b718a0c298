#include "store/memory/numbers_registry.h"

namespace weir::store {
namespace {

constexpr std::uint64_t kRefsMask = 0xffff'ffff;

// Ids are 1 .. kMost, and every stamp has its own order of them: from first_id() upwards, around.
unsigned first_id(std::uint32_t stamp) {
  return 1 +
         static_cast<unsigned>((std::uint64_t{stamp * 0x9E3779B1U} * NumbersRegistry::kMost) >> 32);
}
unsigned next_id(unsigned id) {
  return id == NumbersRegistry::kMost ? 1 : id + 1;
}

}  // namespace

Result<NumbersRegistry> NumbersRegistry::make() {
  Result<Region> region = Region::map(sizeof(Entry) * (kMost + 1));
  if (!region) return std::move(region).error();
  return NumbersRegistry(*std::move(region));
}

void NumbersRegistry::saw_generation(unsigned id, std::uint32_t generation) noexcept {
  std::atomic_ref newest(entry(id).generation);
  std::uint32_t seen = newest.load(std::memory_order_relaxed);
  while (seen < generation &&
         !newest.compare_exchange_weak(seen, generation, std::memory_order_relaxed)) {
  }
}

// Takes a reference to `id` if it still belongs to these numbers.
bool NumbersRegistry::try_acquire(unsigned id, const limit::Numbers& numbers,
                                  std::uint64_t seen) noexcept {
  std::atomic_ref word(entry(id).stamp_and_refs);
  while ((seen >> 32) == numbers.stamp) {
    if (word.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire,
                                   std::memory_order_relaxed)) {
      if (entry(id).numbers == numbers) return true;
      release(id);  // other numbers with the same stamp
      return false;
    }
  }
  return false;
}

unsigned NumbersRegistry::acquire(const limit::Numbers& numbers,
                                  std::uint32_t generation) noexcept {
  constexpr int kQuickLook = 16;
  unsigned id = first_id(numbers.stamp);
  for (int i = 0; i < kQuickLook; ++i, id = next_id(id)) {
    const std::uint64_t seen =
        std::atomic_ref(entry(id).stamp_and_refs).load(std::memory_order_acquire);
    if (try_acquire(id, numbers, seen)) {
      saw_generation(id, generation);
      return id;
    }
    if (seen == 0) break;
  }
  return acquire_slowly(numbers, generation);
}

unsigned NumbersRegistry::acquire_slowly(const limit::Numbers& numbers,
                                         std::uint32_t generation) noexcept {
  std::lock_guard lock(mutex_);
  unsigned unused = 0;
  unsigned id = first_id(numbers.stamp);
  for (unsigned i = 0; i < kMost; ++i, id = next_id(id)) {
    const std::uint64_t seen =
        std::atomic_ref(entry(id).stamp_and_refs).load(std::memory_order_acquire);
    if (try_acquire(id, numbers, seen)) {
      saw_generation(id, generation);
      return id;
    }
    if (unused == 0 && (seen & kRefsMask) == 0) unused = id;
    if (seen == 0) break;
  }
  if (unused == 0) return 0;
  Entry& mine = entry(unused);
  std::atomic_ref word(mine.stamp_and_refs);
  std::uint64_t seen = word.load(std::memory_order_acquire);
  // Somebody may have taken a reference meanwhile; then this id is theirs, and the table is so full
  // that the next ask may look again.
  if ((seen & kRefsMask) != 0 ||
      !word.compare_exchange_strong(seen, 1, std::memory_order_acquire)) {
    return 0;
  }
  mine.numbers = numbers;
  std::atomic_ref(mine.generation).store(generation, std::memory_order_relaxed);
  word.store((std::uint64_t{numbers.stamp} << 32) | 1, std::memory_order_release);
  return unused;
}

}  // namespace weir::store
