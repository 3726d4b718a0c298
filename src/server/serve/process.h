#pragma once

#include <cstddef>

namespace weir::server {

// How many threads this process can run at once: the cores it may be scheduled on, less where its
// control group is given a smaller share. At least 1.
std::size_t usable_cores();

// Allows as many open descriptors as the system lets us have, and returns how many that is.
std::size_t raise_descriptor_limit();

// The most connections each of `lanes` takes where `descriptors` may be open. What clients can take
// leaves enough for the admin door, the policy file and the loops: a flood of connections neither
// hides the metrics nor fails a reload.
std::size_t connections_a_lane(std::size_t descriptors, std::size_t lanes);

}  // namespace weir::server
