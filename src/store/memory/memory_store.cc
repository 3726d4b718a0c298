#include "store/memory/memory_store.h"

#include <string>
#include <utility>

namespace weir::store {

Result<std::unique_ptr<MemoryStore>> MemoryStore::open(Options options) {
  if (options.max_keys == 0 || options.max_keys > kMostKeys) {
    return Error{ErrorCode::invalid_argument, "the memory store's cap on keys must be from 1 to " +
                                                  std::to_string(kMostKeys) + ", not " +
                                                  std::to_string(options.max_keys)};
  }
  auto impl = BasicMemoryStore<NoHooks>::open(options.max_keys);
  if (!impl) return std::move(impl).error();
  return std::unique_ptr<MemoryStore>(new MemoryStore(*std::move(impl)));
}

MemoryStore::MemoryStore(std::unique_ptr<BasicMemoryStore<NoHooks>> impl)
    : impl_(std::move(impl)) {}

LocalAnswer MemoryStore::decide(std::span<const Counter> counters, Instant now,
                                std::span<Finding> findings) noexcept {
  return impl_->decide(counters, now, findings);
}

void MemoryStore::expect(std::span<const Counter> counters) const noexcept {
  impl_->expect(counters);
}

std::uint64_t MemoryStore::keys() const noexcept {
  return impl_->keys();
}
std::size_t MemoryStore::resident_bytes() const {
  return impl_->resident_bytes();
}

}  // namespace weir::store
