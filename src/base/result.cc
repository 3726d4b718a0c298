#include "weir/result.h"

namespace weir {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::failed_precondition:
      return "failed_precondition";
    case ErrorCode::unavailable:
      return "unavailable";
    case ErrorCode::resource_exhausted:
      return "resource_exhausted";
    case ErrorCode::internal:
      return "internal";
  }
  return "internal";
}

}  // namespace weir
