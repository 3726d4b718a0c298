#include "base/asymmetric_fence.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace weir {
namespace {

bool system_fence(int command) noexcept {
  return syscall(SYS_membarrier, command, 0, 0) == 0;
}

}  // namespace

constinit std::atomic<bool> AsymmetricFence::all_are_reached_{false};

void AsymmetricFence::prepare() noexcept {
  static const bool registered = [] {
    const bool reached = system_fence(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
                         system_fence(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    if (reached) all_are_reached_.store(true, std::memory_order_release);
    return reached;
  }();
  (void)registered;
}

bool AsymmetricFence::heavy() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!all_are_reached_.load(std::memory_order_acquire)) return true;
  // A child of a fork may have to say anew that it wants them.
  return system_fence(MEMBARRIER_CMD_PRIVATE_EXPEDITED) ||
         (system_fence(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
          system_fence(MEMBARRIER_CMD_PRIVATE_EXPEDITED));
}

}  // namespace weir
