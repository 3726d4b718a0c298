#pragma once

#include <array>
#include <cstddef>

namespace weir::server::grpc {

// Memory for many small objects that come and go alike: what is given back is kept, by size, for
// the next that asks. In a steady state nothing reaches the system's allocator.
//
// Guarantees:  keeps at most kMostKept bytes that nobody uses.
// Threads:     one lane's.
class BlockPool {
 public:
  static constexpr std::size_t kMostKept = 8U << 20U;

  BlockPool() = default;
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool();

  // As malloc, free and realloc. Null when memory is out.
  void* take(std::size_t bytes) noexcept;
  void give(void* block) noexcept;
  void* resize(void* block, std::size_t bytes) noexcept;

  std::size_t kept() const noexcept { return kept_; }

 private:
  static constexpr std::size_t kStep = 64;
  static constexpr std::size_t kClasses = 64;  // up to 4 KiB; larger ones are the system's

  // Stands before every block.
  struct alignas(std::max_align_t) Head {
    std::size_t room = 0;  // bytes behind it
    Head* next = nullptr;  // while it is kept
  };

  static std::size_t class_of(std::size_t bytes) noexcept { return (bytes + kStep - 1) / kStep; }

  std::array<Head*, kClasses + 1> kept_heads_{};
  std::size_t kept_ = 0;
};

}  // namespace weir::server::grpc
