#include "cli/environment.h"

#include <algorithm>

namespace weir::cli {

ExitCode fail(Environment& environment, ExitCode code, std::string_view message) {
  while (message.ends_with('\n')) message.remove_suffix(1);
  const std::string_view first = message.substr(0, message.find('\n'));
  const auto more = std::count(message.begin(), message.end(), '\n');
  environment.err << "weir: " << first;
  if (more != 0) environment.err << " (and " << more << " more)";
  environment.err << '\n';
  return code;
}

}  // namespace weir::cli
