#pragma once

#include <string>
#include <utility>

#include "weir/result.h"

namespace weir::ledger {

// A folder that belongs to one process at a time. The system lets go of it when the process ends,
// however it ends. Two locks: of a file in it, which network file systems keep as well, and of the
// folder itself, which holds though somebody removes that file.
class FolderLock {
 public:
  // Makes the folder where it is not there (its parent must be), unless it is to be there already.
  //
  // Errors:      failed_precondition: another process has it (the message says which);
  //              invalid_argument: it cannot be made, or a file in it cannot be written.
  enum class Missing : bool { refuse, make };
  static Result<FolderLock> take(const std::string& folder, Missing missing = Missing::make);

  // Whether `folder` is still the one that is held; a folder that is gone is not.
  bool is_of(const std::string& folder) const;

  FolderLock(FolderLock&& other) noexcept
      : folder_(std::exchange(other.folder_, -1)), file_(std::exchange(other.file_, -1)) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  FolderLock() = default;

  int folder_ = -1;
  int file_ = -1;
};

}  // namespace weir::ledger
