#pragma once

#include <string>
#include <utility>

#include "weir/result.h"

namespace weir::ledger {

// A folder that belongs to one process at a time. The system lets go of it when the process ends,
// however it ends.
class FolderLock {
 public:
  // Makes the folder where it is not there (its parent must be).
  //
  // Errors:      failed_precondition: another process has it (the message says which);
  //              invalid_argument: it cannot be made, or a file in it cannot be written.
  static Result<FolderLock> take(const std::string& folder);

  FolderLock(FolderLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace weir::ledger
