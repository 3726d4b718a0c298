#pragma once

#include <functional>
#include <string>
#include <vector>

#include "store/redis/error_class.h"
#include "store/redis/reply_reader.h"
#include "store/redis/script.h"

namespace weir::store::redis {

// A command beside the asks: of breakers and leases that a fleet shares.
struct StoreCall {
  const Script* script = nullptr;   // null: a plain command, whose words are `arguments`
  std::vector<std::string> keys{};  // of the script
  std::vector<std::string> arguments{};
};

// How it ended: `error`, or else `reply`, which ends with the call. Comes once; and a second time,
// `late`, where the reply came after its deadline had been told. The breaker of the store hears
// nothing of it.
using CallHandler = std::function<void(const ErrorRow* error, const Reply* reply, bool late)>;

}  // namespace weir::store::redis
