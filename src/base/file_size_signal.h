#pragma once

#include <pthread.h>

#include <csignal>

namespace weir {

// For the start of a thread of ours that writes files: from here on a write beyond RLIMIT_FSIZE is
// an error of that write (EFBIG), as on a full disk, and not the end of the process. Of this thread
// alone: what the program wants of SIGXFSZ elsewhere is its own.
inline void take_file_size_as_error() noexcept {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGXFSZ);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

}  // namespace weir
