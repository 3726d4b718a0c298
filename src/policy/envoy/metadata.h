#pragma once

#include <string>

#include "policy/yaml.h"

namespace weir::policy {

// A YAML value as JSON: plain scalars by their form (null, true, 1, 1.5), all others as text.
std::string json_of(const YamlNode& node);

}  // namespace weir::policy
