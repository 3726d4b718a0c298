#pragma once

#include "policy/field_reader.h"
#include "policy/model.h"

namespace weir::policy {

// Reads `store:`, short (the URL) or long. Faulty fields keep their defaults; the faults say so.
StoreSpec read_store(FaultList& faults, const Value& at);

}  // namespace weir::policy
