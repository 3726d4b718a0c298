#include "ledger/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace weir::ledger {

Result<FolderLock> FolderLock::take(const std::string& folder) {
  const auto refused = [&folder](const char* why) {
    return Error{ErrorCode::invalid_argument,
                 "journal: " + folder + " " + why + ": " + std::strerror(errno)};
  };
  if (::mkdir(folder.c_str(), 0750) != 0 && errno != EEXIST) return refused("cannot be made");
  const std::string path = folder + "/journal.lock";
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640);
  // On a disk that became read-only the lock that is there serves as well.
  const int held = descriptor >= 0 ? descriptor : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (held < 0) return refused("cannot be locked");
  FolderLock lock(held);
  if (::flock(held, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return refused("cannot be locked");
    char holder[24] = {};
    const ssize_t bytes = ::pread(held, holder, sizeof(holder) - 1, 0);
    const std::string who = bytes > 0 ? " (process " + std::string(holder) + ")" : "";
    return Error{ErrorCode::failed_precondition, "journal: another process" + who + " writes to " +
                                                     folder +
                                                     "; give each process a folder of its own"};
  }
  const std::string self = std::to_string(::getpid());
  // Only for the message above.
  if (::ftruncate(held, 0) == 0) (void)!::pwrite(held, self.data(), self.size(), 0);
  return lock;
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace weir::ledger
