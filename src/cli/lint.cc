#include "cli/lint.h"

#include <unistd.h>

#include <algorithm>

#include "cli/lint_store.h"
#include "cli/open_policy.h"
#include "cli/serve_faults.h"
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

class Linter {
 public:
  Linter(Environment& environment, const std::string& path, const LintCommand& command)
      : environment_(environment), path_(path), command_(command) {}

  void lint() {
    if (!readable()) return tell_unreadable();
    policy::Loaded loaded = policy::load_path(path_);
    for (const Fault& fault : loaded.faults) {
      tell(fault);
      if (!fault.warning) told_.push_back(fault.field);
    }
    if (loaded.model) {
      look_at_its_store(Policy(std::move(loaded.model)));
    } else if (loaded.draft) {
      look_at_its_store(Policy(std::move(loaded.draft)));
    }
    environment_.out << (command_.json ? json_summary() : path_ + ": " + summary()) << '\n';
  }

  ExitCode code() const {
    if (unread_) return ExitCode::usage;
    if (faults_ != 0) return ExitCode::answered_no;
    return !not_asked_.empty() ? ExitCode::undecided : ExitCode::as_asked;
  }

 private:
  // Looks without opening: what a pipe holds can be read only once.
  bool readable() const { return ::access(path_.c_str(), R_OK) == 0; }

  // Whoever reads objects learns of it, too.
  void tell_unreadable() {
    unread_ = true;
    fail(environment_, ExitCode::usage,
         path_ + " cannot be read; name a policy file that is there and readable");
    if (!command_.json) return;
    tell({.file = path_, .problem = "cannot be read", .allowed = "a policy file"});
    environment_.out << json_summary() << '\n';
  }

  void tell(const Fault& fault) {
    ++(fault.warning ? warnings_ : faults_);
    environment_.out << (command_.json ? json_of(fault) : fault.text()) << '\n';
  }

  // A file without faults may still ask for what its store cannot do; and whoever mends some should
  // not learn of the rest afterwards.
  void look_at_its_store(Policy policy) {
    if (const auto other = store_override(environment_, command_.store)) {
      if (const auto fault = fault_of(*other)) {
        tell({.file = path_, .problem = *fault});
        return;
      }
    }
    ExitCode code = ExitCode::as_asked;
    const auto moved = on_its_store(environment_, std::move(policy), command_.store, code);
    if (!moved) {
      ++faults_;
      return;
    }
    for (const Fault& fault : serve_faults(path_, *moved)) {
      // What is wrong with a field is told already: that it says nothing then is no news.
      const bool told = !fault.field.empty() &&
                        std::any_of(told_.begin(), told_.end(), [&](const std::string& field) {
                          return field == fault.field || field.starts_with(fault.field + ".");
                        });
      if (!told || fault.field.starts_with("routes.")) tell(fault);
    }
    if (command_.connect && faults_ == 0) connect(moved->model());
  }

  void connect(const policy::Model& model) {
    const StoreVerdict verdict = lint_store(environment_, path_, model, command_.json);
    faults_ += verdict.faults;
    warnings_ += verdict.warnings;
    not_asked_ = verdict.not_asked;
    asked_ = not_asked_.empty();
  }

  std::string summary() const {
    if (!not_asked_.empty() && faults_ == 0) {
      return "no faults in the file; its " + not_asked_ + " could not be asked";
    }
    if (faults_ != 0 && warnings_ != 0) {
      return counted(faults_, "fault") + ", " + counted(warnings_, "warning");
    }
    if (warnings_ != 0) return counted(warnings_, "warning") + ", no faults";
    return faults_ != 0 ? counted(faults_, "fault") : "no faults";
  }

  // Without it, who reads lines could not tell "no fault" from "not looked at".
  std::string json_summary() const {
    std::string out = "{\"file\":";
    render::append_json_string(out, path_);
    out += ",\"faults\":";
    render::append_number(out, faults_);
    out += ",\"warnings\":";
    render::append_number(out, warnings_);
    out += asked_ ? ",\"store_asked\":true}" : ",\"store_asked\":false}";
    return out;
  }

  static std::string counted(std::size_t count, const char* what) {
    return std::to_string(count) + ' ' + what + (count == 1 ? "" : "s");
  }

  Environment& environment_;
  const std::string& path_;
  const LintCommand& command_;
  std::size_t faults_ = 0;
  std::size_t warnings_ = 0;
  bool unread_ = false;
  std::vector<std::string> told_;  // fields that have a fault
  bool asked_ = false;             // its store, and its fallback, and they answered
  std::string not_asked_;          // what of it should have been, and could not be
};

}  // namespace

ExitCode lint(Environment& environment, const LintCommand& command) {
  if (!command.connect && !command.store.empty()) {
    return fail(environment, ExitCode::usage, "--store goes with --connect");
  }
  ExitCode worst = ExitCode::as_asked;
  for (const std::string& path : command.policies) {
    Linter linter(environment, path, command);
    linter.lint();
    worst = worse(worst, linter.code());
  }
  return worst;
}

}  // namespace weir::cli
