#pragma once

#include <cstddef>

namespace weir::server {

// How many threads this process can run at once: the cores it may be scheduled on, less where its
// control group is given a smaller share. At least 1.
std::size_t usable_cores();

// Allows as many open descriptors as the system lets us have, and returns how many that is.
std::size_t raise_descriptor_limit();

}  // namespace weir::server
