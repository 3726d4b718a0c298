#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

namespace weir::testing {

// Memory of one Lua. Scripts make many small things and drop them at once; those of one size are
// kept for the next of that size, and all of it goes with the last.
//
// Threads:     one at a time.
class LuaMemory {
 public:
  // As lua_Alloc, with the memory first.
  static void* allocate(void* memory, void* old, std::size_t old_size, std::size_t new_size);

 private:
  static constexpr std::size_t kStep = 16;
  static constexpr std::size_t kMost = 256;  // what is larger is the system's
  static constexpr std::size_t kChunk = 64 * 1'024;
  struct Free {
    Free* next;
  };

  static std::size_t step_of(std::size_t size) { return (size + kStep - 1) / kStep; }
  void* take(std::size_t size);
  void give_back(void* old, std::size_t size);

  std::array<Free*, kMost / kStep + 1> free_{};
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::byte* next_ = nullptr;
  std::size_t left_ = 0;
};

}  // namespace weir::testing
