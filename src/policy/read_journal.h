#pragma once

#include "policy/field_reader.h"
#include "policy/model.h"

namespace weir::policy {

// Reads `journal:`, short (the folder) or long. Faulty fields keep their defaults; the faults say
// so.
JournalSpec read_journal(FaultList& faults, const Value& at);

}  // namespace weir::policy
