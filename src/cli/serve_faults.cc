#include "cli/serve_faults.h"

#include "guard/openable.h"
#include "policy/load.h"
#include "policy/model.h"

namespace weir::cli {

std::vector<Fault> serve_faults(const std::string& path, const Policy& policy) {
  std::vector<Fault> out;
  const bool shared = !policy.model().store.url.starts_with("memory:");
  if (const auto open = policy::undecided_domains(policy.model()); shared && !open.empty()) {
    out.push_back({.file = path,
                   .field = "rls.protects",
                   .problem = "domain '" + open.front() +
                              "' does not say what happens while the store cannot be asked",
                   .allowed = "serve needs --protects",
                   .warning = true});
  }
  // Closed asks least of a store: --protects may say so.
  const Policy decided = policy.with_protects(Protects::security);
  if (const auto fits = guard::check_openable(decided.model()); !fits) {
    const std::vector<Fault> faults = policy::faults_of(path, fits.error());
    out.insert(out.end(), faults.begin(), faults.end());
  }
  return out;
}

}  // namespace weir::cli
