#pragma once

#include <cstdint>
#include <mutex>

#include "store/memory/region.h"

namespace weir::store {

// Cells of one cache line each, named by numbers from 1, taken and given back one at a time. Memory
// is touched as cells are first taken.
//
// Threads:     every member from any thread; a cell's content is its taker's matter.
class CellPool {
 public:
  static constexpr std::size_t kCellBytes = 64;

  static Result<CellPool> make(std::uint32_t most) {
    Result<Region> region = Region::map((std::size_t{most} + 1) * kCellBytes);
    if (!region) return std::move(region).error();
    return CellPool(*std::move(region), most);
  }
  CellPool(CellPool&& other) noexcept : region_(std::move(other.region_)), most_(other.most_) {}

  // A zeroed cell, or 0 where none is left.
  std::uint32_t take() noexcept {
    std::lock_guard lock(mutex_);
    const std::uint32_t id = free_;
    if (id == 0) return used_ == most_ ? 0 : ++used_;
    free_ = *at<std::uint32_t>(id);
    *at<std::uint32_t>(id) = 0;
    return id;
  }
  void give(std::uint32_t id) noexcept {
    __builtin_memset(at<char>(id), 0, kCellBytes);
    std::lock_guard lock(mutex_);
    *at<std::uint32_t>(id) = free_;
    free_ = id;
  }

  template <class T>
  T* at(std::uint32_t id) const noexcept {
    return reinterpret_cast<T*>(static_cast<char*>(region_.data()) + std::size_t{id} * kCellBytes);
  }
  std::size_t resident_bytes() const { return region_.resident_bytes(); }

 private:
  CellPool(Region region, std::uint32_t most) : region_(std::move(region)), most_(most) {}

  Region region_;
  std::uint32_t most_;
  std::mutex mutex_;
  std::uint32_t used_ = 0;  // cells that were ever taken
  std::uint32_t free_ = 0;  // first of the list of cells given back
};

}  // namespace weir::store
