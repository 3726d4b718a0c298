#pragma once

#include <chrono>
#include <string>

#include "render/text.h"
#include "weir/clock.h"

namespace weir::drill {

// A time for people, to the microsecond: "1.5 ms".
inline std::string in_words(Nanos time) {
  std::string out;
  render::append_duration(out, std::chrono::round<std::chrono::microseconds>(time));
  return out;
}

}  // namespace weir::drill
