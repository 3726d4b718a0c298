#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "policy/model.h"
#include "weir/policy.h"
#include "weir/result.h"

namespace weir::policy {

// Most files of a directory that are read, and most domains they hold.
inline constexpr std::size_t kMaxFiles = 10'000;

// What came of reading: a model, or faults that stand against one; warnings beside either.
struct Loaded {
  std::shared_ptr<Model> model;
  // What could be read of a policy that has faults, so that what else it lacks is told with them;
  // nothing decides by it.
  std::shared_ptr<Model> draft;
  std::vector<Fault> faults;
  bool unreadable = false;  // the file itself is not there
};

// Reads a native policy with the domains that its `rls:` names, one Envoy-style file, or a
// directory: its *.yaml and *.yml files by name, at most one of them native.
//
// Guarantees:  all or nothing: the faults of all files come together, and there is no model then.
Loaded load_path(const std::string& path);

// The same, of a text; `rls: {config: ...}` is a fault there, since a text has no directory.
Loaded load_text(std::string_view text, const std::string& name);

// What is wrong with the policy at `path` as a whole, a fault for each line of the message. What
// stands before the first ": " is the field, where it is one word: the place is the field's in the
// native policy, or of what it would stand in; none where that is not there either.
std::vector<Fault> faults_of(const std::string& path, const Error& error);

// Where a path that the policy at `path` names is: beside it, unless it is absolute. Empty where
// `named` is.
std::string beside(const std::string& path, const std::string& named);

// Which domains have limits but do not say what happens without the store, nor does `rls:`.
// "domain", or "domain, below key1_value1".
std::vector<std::string> undecided_domains(const Model& model);

// Lets `protects` decide for all that do not say it themselves.
void decide_domains(Model& model, Protects protects);

}  // namespace weir::policy
