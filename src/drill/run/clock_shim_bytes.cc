#include "drill/run/clock_shim_bytes.h"

asm(".section .rodata\n"
    ".global weir_clock_shim\n"
    ".global weir_clock_shim_end\n"
    "weir_clock_shim:\n"
    ".incbin \"" WEIR_CLOCK_SHIM
    "\"\n"
    "weir_clock_shim_end:\n"
    ".byte 0\n"
    ".text\n");

extern "C" {
extern const char weir_clock_shim[];
extern const char weir_clock_shim_end[];
}

namespace weir::drill {

std::string_view clock_shim_bytes() noexcept {
  return {weir_clock_shim, static_cast<std::size_t>(weir_clock_shim_end - weir_clock_shim)};
}

}  // namespace weir::drill
