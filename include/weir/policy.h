#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/clock.h"
#include "weir/limits.h"
#include "weir/result.h"

namespace weir {

namespace policy {
struct Model;
}

// One fault of a policy file: where, what, and what is allowed.
struct Fault {
  std::string file;
  int line = 0;          // from 1; 0: the file as a whole
  int column = 0;        // from 1
  std::string field;     // "routes.login.limits[0].per"
  std::string value;     // as written, shortened; may be empty
  std::string problem;   // a sentence
  std::string allowed;   // what would be right; may be empty
  bool warning = false;  // the file loads all the same

  // "weir.yaml:12:9: routes.login.protects: 'everything' is not … ; allowed: …"
  std::string text() const;
};

// One limit of a route built in code; see RouteSpec.
struct LimitSpec {
  std::uint64_t requests = 0;     // units a period; 0 blocks
  Nanos per{0};                   // an exact length; for calendar periods use a policy file
  std::vector<std::string> by{};  // sources; empty: one counter for all
  std::optional<Algorithm>
      algorithm{};  // absent: gcra, or sliding_log for a route that protects security
  std::optional<std::uint64_t> burst{};  // gcra; absent: `requests`
  std::string name{};                    // absent: made from the numbers
  bool shadow = false;
};

// A route built in code. Designated initialisers keep it readable:
//   RouteSpec{.name = "login",
//             .limits = {{.requests = 5, .per = 1min, .by = {"ip"}}},
//             .protects = Protects::security}
struct RouteSpec {
  std::string name{};
  std::vector<LimitSpec> limits{};
  std::optional<Protects> protects{};
  std::optional<FailurePolicy> when_store_fails{};  // one of the two must be given
  std::optional<LimitSpec> ceiling{};
};

// What is limited, and what happens when it cannot be checked. Immutable; copies share it.
//
// Threads:     safe to share.
class Policy {
 public:
  // Reads a native policy file, a file of Envoy's rate limit service, or a directory of these. All
  // faults come together, one a line.
  // Errors:      invalid_argument (the file is wrong), not_found (cannot be read).
  static Result<Policy> load(const std::string& path);
  // As load(), of text in memory; `name` stands for the file in messages.
  static Result<Policy> parse(std::string_view text, const std::string& name = "policy");
  // Checks what load() would, and returns every fault and warning instead of stopping.
  static std::vector<Fault> lint(const std::string& path);
  // A policy of routes built in code, on the memory store unless with_store() says otherwise.
  static Result<Policy> of(std::vector<RouteSpec> routes);

  // The same policy on another store: what --store and WEIR_STORE do.
  Result<Policy> with_store(std::string_view url) const;

  // The same policy, where `protects` decides for domains of Envoy-style files that do not say
  // themselves what happens without the store: what --protects does.
  Policy with_protects(Protects protects) const;

  const policy::Model& model() const noexcept { return *model_; }
  explicit Policy(std::shared_ptr<const policy::Model> model) : model_(std::move(model)) {}

 private:
  std::shared_ptr<const policy::Model> model_;
};

}  // namespace weir
