#include "server/serve/process.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

#include "server/lane.h"

namespace weir::server {
namespace {

// The control group's share in whole cores, rounded up; 0 where there is none. "max 100000" or
// "150000 100000": microseconds of processor time in each period of so many.
std::size_t control_group_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  std::uint64_t period = 0;
  if (!(file >> quota >> period) || quota == "max" || period == 0) return 0;
  std::uint64_t time = 0;
  for (const char c : quota) {
    if (c < '0' || c > '9') return 0;
    time = time * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return static_cast<std::size_t>((time + period - 1) / period);
}

}  // namespace

std::size_t usable_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::size_t cores = 1;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    cores = std::max<std::size_t>(1, static_cast<std::size_t>(CPU_COUNT(&allowed)));
  }
  const std::size_t share = control_group_cores();
  return share == 0 ? cores : std::min(cores, share);
}

std::size_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  if (limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    ::getrlimit(RLIMIT_NOFILE, &limit);
  }
  return static_cast<std::size_t>(limit.rlim_cur);
}

std::size_t connections_a_lane(std::size_t descriptors, std::size_t lanes) {
  constexpr std::size_t kOfTheProcess = 192;  // the admin door's connections, files, pipes
  constexpr std::size_t kOfALane = 8;         // its loop and its listeners
  const std::size_t most = LaneOptions{}.max_connections;
  if (descriptors == 0) return most;  // not known
  const std::size_t kept = std::min(kOfTheProcess + kOfALane * lanes, descriptors / 2);
  return std::clamp<std::size_t>((descriptors - kept) / lanes, 1, most);
}

}  // namespace weir::server
