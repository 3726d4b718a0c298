#include "ledger/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace weir::ledger {
namespace {

// `file` says which, where it is there.
Error held_by_another(const std::string& folder, int file) {
  char holder[24] = {};
  const ssize_t bytes = file < 0 ? 0 : ::pread(file, holder, sizeof(holder) - 1, 0);
  const std::string who = bytes > 0 ? " (process " + std::string(holder) + ")" : "";
  return {ErrorCode::failed_precondition, "journal: another process" + who + " writes to " +
                                              folder + "; give each process a folder of its own"};
}

}  // namespace

Result<FolderLock> FolderLock::take(const std::string& folder, Missing missing) {
  const auto refused = [&folder](const char* why) {
    return Error{ErrorCode::invalid_argument,
                 "journal: " + folder + " " + why + ": " + std::strerror(errno)};
  };
  if (missing == Missing::make && ::mkdir(folder.c_str(), 0750) != 0 && errno != EEXIST)
    return refused("cannot be made");
  FolderLock lock;
  lock.folder_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // Where folders cannot be locked, as on NFS, the file says it alone.
  const bool taken =
      lock.folder_ >= 0 && ::flock(lock.folder_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  const std::string path = folder + "/journal.lock";
  lock.file_ = ::open(path.c_str(), O_RDWR | (taken ? 0 : O_CREAT) | O_CLOEXEC, 0640);
  // On a disk that became read-only the lock that is there serves as well.
  if (lock.file_ < 0) lock.file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (taken) return held_by_another(folder, lock.file_);
  if (lock.file_ < 0) return refused("cannot be locked");
  if (::flock(lock.file_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return refused("cannot be locked");
    return held_by_another(folder, lock.file_);
  }
  const std::string self = std::to_string(::getpid());
  // Only for the message above.
  if (::ftruncate(lock.file_, 0) == 0) (void)!::pwrite(lock.file_, self.data(), self.size(), 0);
  return lock;
}

bool FolderLock::is_of(const std::string& folder) const {
  if (folder_ < 0) return true;  // it may not be read, and then nobody can tell
  struct stat held {};
  struct stat found {};
  return ::fstat(folder_, &held) == 0 && ::stat(folder.c_str(), &found) == 0 &&
         held.st_dev == found.st_dev && held.st_ino == found.st_ino;
}

FolderLock::~FolderLock() {
  if (file_ >= 0) ::close(file_);
  if (folder_ >= 0) ::close(folder_);
}

}  // namespace weir::ledger
