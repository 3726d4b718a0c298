#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "weir/breaker.h"

namespace weir::breaker {

// A permit as text, for callers in another process: who asked and who reports need not be one
// connection, and nothing is kept for it here.
//
//   2-BREAKER-WORD-STARTED-PROBE-SLOT-KIND-SEAL   hexadecimal numbers
//
// Guarantees:  a token of another breaker, of an earlier life of this one, or one that was altered
//              is none: the seal is keyed with a secret of this process. A probe's
// token
//              reports once; any other token votes as often as it is reported while its generation
//              lasts, as a caller that says the same outcome of another call could.
class PermitToken {
 public:
  // The permit reports by its token from here on.
  static std::string of(const Breaker& breaker, Permit permit);
  // Absent: no token of this breaker.
  static std::optional<Permit> read(const Breaker& breaker, std::string_view token);
};

}  // namespace weir::breaker
