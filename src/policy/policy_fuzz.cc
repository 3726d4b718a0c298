#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "weir/policy.h"

// Any bytes are a policy, or faults: never a crash, an exception, or an error without a message.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto policy = weir::Policy::parse(text, "fuzz.yaml");
  if (!policy && policy.error().message.empty()) std::abort();
  return 0;
}
