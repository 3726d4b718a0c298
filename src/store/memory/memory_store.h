#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "store/local_store.h"
#include "store/memory/basic_memory_store.h"
#include "weir/result.h"

namespace weir::store {

// The embedded store: every counter of one process, in memory.
//
// Guarantees:  all counters of an ask are one atomic step, however many threads ask. Never more
// than
//              max_keys live counters: at the cap, one whose state could be told from a fresh one
//              is never dropped for a newcomer; the newcomer is answered `exhausted` where it would
//              have to be charged. Nothing is allocated after open(); memory is touched as keys
//              come, about 36 bytes a key at the cap.
// Threads:     any number at once. No thread or timer of its own: expired counters are dropped a
// few
//              at a time, in the course of asks.
// Source:      docs/internals/memory-store.md
class MemoryStore final : public LocalStore {
 public:
  struct Options {
    // Most live counters. There is no default: it is what an attacker with many names can make this
    // process spend.
    std::uint64_t max_keys;
  };
  static constexpr std::uint64_t kMostKeys = std::uint64_t{1} << 32;

  // Errors:      invalid_argument, where max_keys is 0 or above kMostKeys; resource_exhausted,
  // where
  //              the system has no such address space.
  static Result<std::unique_ptr<MemoryStore>> open(Options options);

  LocalAnswer decide(std::span<const Counter> counters, Instant now,
                     std::span<Finding> findings) noexcept override;
  void expect(std::span<const Counter> counters) const noexcept override;
  std::uint64_t keys() const noexcept override;

  // Bytes of memory in use, in whole pages.
  std::size_t resident_bytes() const;

 private:
  explicit MemoryStore(std::unique_ptr<BasicMemoryStore<NoHooks>> impl);
  std::unique_ptr<BasicMemoryStore<NoHooks>> impl_;
};

}  // namespace weir::store
