// Included first by whatever includes protobuf's headers under ThreadSanitizer.
//
// There they add members to classes that the distribution's library, built without it, knows
// without: both sides would read each other's bytes wrongly. The C++ library's own headers have
// drawn their conclusions by then.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_THREAD__)
#undef __SANITIZE_THREAD__
#define WEIR_SANITIZE_THREAD 1
#endif
