#pragma once

// What several benchmarks measure with.

#include <sched.h>
#include <sys/types.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

namespace weir::bench {

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Keeps a process, or the calling thread (0), on one core.
inline void pin(pid_t pid, int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  (void)sched_setaffinity(pid, sizeof(set), &set);
}

// Nanoseconds on a processor, of a process's first thread: of redis-server the one that runs the
// commands.
inline double cpu_ns(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/schedstat");
  double on_cpu = 0;
  in >> on_cpu;
  return on_cpu;
}

}  // namespace weir::bench
