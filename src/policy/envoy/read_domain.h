#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "policy/envoy/domain.h"
#include "policy/fault_list.h"
#include "policy/yaml.h"

namespace weir::policy {

// The domain that a text describes, where it is a file of one rather than a native policy: its root
// has `domain`, or `descriptors` and no `routes`. The name may be empty, which reading refuses.
std::optional<std::string> domain_of(std::string_view text);

// Reads a file of Envoy's rate limit service as its own reader does, and Weir's fields beside.
// Where `domain` holds descriptors of another file already, these are added.
//
// Guarantees:  what that reader refuses is refused. What it reads and Weir does not, is a warning
// or
//              a fault that docs/reference/envoy-files.md names.
// Errors:      the faults say why; the domain is of no use then.
void read_domain(std::string_view text, FaultList& faults, Domain& domain);

// What holds over all files of a domain: warns where a limit replaces what does not exist.
void check_domain(const Domain& domain, FaultList& faults);

}  // namespace weir::policy
