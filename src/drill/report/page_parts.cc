#include "drill/report/page_parts.h"

// A file's bytes between two symbols.
#define WEIR_BYTES(name, path)        \
  asm(".section .rodata\n"            \
      ".global " #name                \
      "\n"                            \
      ".global " #name "_end\n" #name \
      ":\n"                           \
      ".incbin \"" path "\"\n" #name  \
      "_end:\n"                       \
      ".byte 0\n"                     \
      ".text\n");                     \
  extern "C" {                        \
  extern const char name[];           \
  extern const char name##_end[];     \
  }

WEIR_BYTES(weir_page_style, WEIR_PAGE_STYLE)
WEIR_BYTES(weir_page_script, WEIR_PAGE_SCRIPT)
WEIR_BYTES(weir_chart_script, WEIR_CHART_SCRIPT)

namespace weir::drill {
namespace {

std::string_view between(const char* begin, const char* end) noexcept {
  return {begin, static_cast<std::size_t>(end - begin)};
}

}  // namespace

std::string_view page_style() noexcept {
  return between(weir_page_style, weir_page_style_end);
}
std::string_view page_script() noexcept {
  return between(weir_page_script, weir_page_script_end);
}
std::string_view chart_script() noexcept {
  return between(weir_chart_script, weir_chart_script_end);
}

}  // namespace weir::drill
