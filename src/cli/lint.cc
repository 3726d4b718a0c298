#include "cli/lint.h"

#include <unistd.h>

#include "cli/lint_store.h"
#include "cli/open_policy.h"
#include "policy/load.h"
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
  bool undecided = false;
};

std::string counted(std::size_t count, const char* what) {
  return std::to_string(count) + ' ' + what + (count == 1 ? "" : "s");
}

std::string summary(const Found& found) {
  if (found.undecided && found.faults == 0) return "no faults in the file; its store was not asked";
  if (found.faults != 0 && found.warnings != 0) {
    return counted(found.faults, "fault") + ", " + counted(found.warnings, "warning");
  }
  if (found.warnings != 0) return counted(found.warnings, "warning") + ", no faults";
  return found.faults != 0 ? counted(found.faults, "fault") : "no faults";
}

// A policy without faults names its store; that is asked.
void connect(Environment& environment, const std::string& path, const LintCommand& command,
             Found& found) {
  ExitCode code = ExitCode::as_asked;
  const auto policy = open_policy(environment, path, command.store, code);
  if (!policy) {
    ++found.faults;
    return;
  }
  const StoreVerdict verdict = lint_store(environment, path, policy->model().store, command.json);
  found.faults += verdict.faults;
  found.warnings += verdict.warnings;
  found.undecided = verdict.undecided;
}

Found lint_file(Environment& environment, const std::string& path, const LintCommand& command) {
  Found found;
  for (const Fault& fault : Policy::lint(path)) {
    ++(fault.warning ? found.warnings : found.faults);
    environment.out << (command.json ? json_of(fault) : fault.text()) << '\n';
  }
  if (command.connect && found.faults == 0) connect(environment, path, command, found);
  if (!command.json) environment.out << path << ": " << summary(found) << '\n';
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
  if (!command.connect && !command.store.empty()) {
    return fail(environment, ExitCode::usage, "--store goes with --connect");
  }
  bool faults = false;
  bool undecided = false;
  for (const std::string& path : command.policies) {
    const Found found = lint_file(environment, path, command);
    faults = faults || found.faults != 0;
    undecided = undecided || found.undecided;
  }
  if (faults) return ExitCode::answered_no;
  return undecided ? ExitCode::undecided : ExitCode::as_asked;
}

}  // namespace weir::cli
