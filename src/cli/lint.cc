#include "cli/lint.h"

#include <unistd.h>

#include "render/text.h"
#include "weir/policy.h"

namespace weir::cli {
namespace {

std::string json_of(const Fault& fault) {
  std::string out = "{\"file\":";
  render::append_json_string(out, fault.file);
  const auto number = [&](std::string_view member, int value) {
    if (value <= 0) return;
    out += member;
    render::append_number(out, static_cast<std::uint64_t>(value));
  };
  const auto text = [&](std::string_view member, const std::string& value) {
    if (value.empty()) return;
    out += member;
    render::append_json_string(out, value);
  };
  number(",\"line\":", fault.line);
  number(",\"column\":", fault.column);
  text(",\"field\":", fault.field);
  text(",\"value\":", fault.value);
  text(",\"problem\":", fault.problem);
  text(",\"allowed\":", fault.allowed);
  out += fault.warning ? ",\"severity\":\"warning\"}" : ",\"severity\":\"fault\"}";
  return out;
}

struct Found {
  std::size_t faults = 0;
  std::size_t warnings = 0;
};

std::string counted(std::size_t count, const char* what) {
  return std::to_string(count) + ' ' + what + (count == 1 ? "" : "s");
}

std::string summary(const Found& found) {
  if (found.faults != 0 && found.warnings != 0) {
    return counted(found.faults, "fault") + ", " + counted(found.warnings, "warning");
  }
  if (found.warnings != 0) return counted(found.warnings, "warning") + ", no faults";
  return found.faults != 0 ? counted(found.faults, "fault") : "no faults";
}

Found lint_file(Environment& environment, const std::string& path, bool json) {
  Found found;
  for (const Fault& fault : Policy::lint(path)) {
    ++(fault.warning ? found.warnings : found.faults);
    environment.out << (json ? json_of(fault) : fault.text()) << '\n';
  }
  if (!json) environment.out << path << ": " << summary(found) << '\n';
  return found;
}

// Looks without opening: what a pipe holds can be read only once.
bool readable(const std::string& path) {
  return ::access(path.c_str(), R_OK) == 0;
}

}  // namespace

ExitCode lint(Environment& environment, const LintCommand& command) {
  for (const std::string& path : command.policies) {
    if (!readable(path)) {
      return fail(environment, ExitCode::usage,
                  path + " cannot be read; name a policy file that is there and readable");
    }
  }
  bool faults = false;
  for (const std::string& path : command.policies) {
    faults |= lint_file(environment, path, command.json).faults != 0;
  }
  return faults ? ExitCode::answered_no : ExitCode::as_asked;
}

}  // namespace weir::cli
