#include "store/memory/region.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace weir::store {

Result<Region> Region::map(std::size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return Error{ErrorCode::resource_exhausted,
                 "the memory store cannot reserve " + std::to_string(bytes) +
                     " bytes of address space: " + std::strerror(errno)};  // NOLINT
  }
  return Region(data, bytes);
}

Region::~Region() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

void Region::prefer_huge_pages_from(std::size_t offset) noexcept {
  if (offset >= bytes_) return;
  // Where the system has none, small ones will do.
  (void)madvise(static_cast<char*>(data_) + offset, bytes_ - offset, MADV_HUGEPAGE);
}

std::size_t Region::resident_bytes() const {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident((bytes_ + page - 1) / page);
  if (resident.empty() || mincore(data_, bytes_, resident.data()) != 0) return 0;
  const auto touched = std::count_if(resident.begin(), resident.end(),
                                     [](unsigned char flags) { return (flags & 1) != 0; });
  return static_cast<std::size_t>(touched) * page;
}

}  // namespace weir::store
