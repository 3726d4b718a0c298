#pragma once

#include <cstddef>
#include <utility>

#include "weir/result.h"

namespace weir::store {

// Zeroed memory whose pages cost nothing until they are touched.
//
// Threads:     immutable; what lies in it is the owner's matter.
class Region {
 public:
  // Errors:      resource_exhausted, where the system will not give so much address space.
  static Result<Region> map(std::size_t bytes);

  Region() = default;
  Region(Region&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Region& operator=(Region&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Region();

  // Asks for pages of 2 MiB from that offset on, a multiple of the page size.
  void prefer_huge_pages_from(std::size_t offset) noexcept;

  void* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  // Bytes of the pages that have been touched.
  std::size_t resident_bytes() const;

 private:
  Region(void* data, std::size_t bytes) : data_(data), bytes_(bytes) {}

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace weir::store
