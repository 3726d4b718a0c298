#pragma once

#include <cstdint>
#include <optional>

#include "weir/clock.h"

namespace weir::render {

// What the system says of this process; absent where it does not say.
struct ProcessNumbers {
  std::optional<Nanos> cpu;      // user and system
  std::optional<Nanos> started;  // since 1970
  std::optional<std::uint64_t> resident_bytes;
  std::optional<std::uint64_t> virtual_bytes;
  std::optional<std::uint64_t> open_fds;
  std::optional<std::uint64_t> max_fds;
};

// Cost:        some system calls; for scrapes, not for requests.
ProcessNumbers read_process_numbers();

}  // namespace weir::render
