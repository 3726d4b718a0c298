#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

namespace weir {

// Room for up to N values of which only those that are used are ever written: a default-constructed
// std::array of thirty-two small structs costs as much as a whole decision.
//
// Requires:    what is read was written before: by assignment, or by construct_first().
template <class T, std::size_t N>
class RawArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  RawArray() noexcept {}  // NOLINT: leaves the room as it is
  RawArray(const RawArray&) = delete;
  RawArray& operator=(const RawArray&) = delete;

  T* data() noexcept { return std::launder(reinterpret_cast<T*>(bytes_)); }
  const T* data() const noexcept { return std::launder(reinterpret_cast<const T*>(bytes_)); }
  T& operator[](std::size_t i) noexcept { return data()[i]; }
  const T& operator[](std::size_t i) const noexcept { return data()[i]; }

  // Default-constructs the first `count` values, and returns them.
  std::span<T> construct_first(std::size_t count) noexcept {
    std::uninitialized_default_construct_n(reinterpret_cast<T*>(bytes_), count);
    return {data(), count};
  }

 private:
  alignas(T) std::byte bytes_[N * sizeof(T)];
};

}  // namespace weir
