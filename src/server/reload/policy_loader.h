#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "render/log.h"
#include "render/metrics.h"
#include "weir/clock.h"
#include "weir/guard.h"
#include "weir/policy.h"

namespace weir::server {

// Where the policy comes from.
struct PolicyOrigin {
  std::string path;
  std::optional<std::string> store_url;  // overrides the file's
  std::optional<Protects> protects;      // of Envoy-style domains that do not say themselves
  std::string store_prefix;              // overrides the file's, where not empty
  std::string state_folder;              // overrides the file's `workers: {state: …}`, likewise
  std::string journal_folder{};          // the same for `journal:`, and the ledger lies in it

  Result<Policy> load() const;
};

// Why a policy that was tried is not in force.
struct LoadFault {
  Instant at{};
  std::string message;        // every fault, one a line
  std::vector<Fault> faults;  // those with a place; may be empty (a file that is gone)

  // Whether the same file may load at another time: nothing in its text is at fault.
  bool may_pass() const noexcept;
};

// Loads the policy again, all or nothing: what cannot be loaded leaves the one in force as it is,
// and is said in the log, in the metrics, and in fault().
//
// Threads:     one at a time.
class PolicyLoader {
 public:
  enum class Why : std::uint8_t {
    change,   // the file looks changed: the same contents are not loaded again
    signal,   // SIGHUP
    request,  // the admin door
  };

  // Requires:    `guard` runs on a policy of `origin`; all outlive this.
  PolicyLoader(PolicyOrigin origin, Guard& guard, render::Metrics& metrics, render::Log& log,
               Clock& clock);

  // Called after each load that was taken over.
  void on_loaded(std::function<void()> hook) { on_loaded_ = std::move(hook); }

  // Errors:      those of Policy::load and Guard::reload; the same as fault()->message.
  Result<void> load(Why why);

  const PolicyOrigin& origin() const noexcept { return origin_; }
  // Of the last load, if it failed.
  const std::optional<LoadFault>& fault() const noexcept { return fault_; }
  // When the policy in force was loaded.
  Instant loaded_at() const noexcept { return loaded_at_; }

 private:
  Result<void> fail(Error error, Why why, std::vector<Fault> faults);
  // Writes the faults of the last load into the log; where they are `known` from the one before,
  // that they are still there.
  void tell(Why why, bool known);

  const PolicyOrigin origin_;
  Guard& guard_;
  render::Metrics& metrics_;
  render::Log& log_;
  Clock& clock_;
  Instant loaded_at_;
  std::optional<LoadFault> fault_;
  std::function<void()> on_loaded_;
};

std::string_view to_string(PolicyLoader::Why why);

}  // namespace weir::server
