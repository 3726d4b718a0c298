// Any bytes as an Envoy-style file and a request to it: never a crash, and each way to a limit that
// the file has is found again.
//
// Input: the file's text up to a zero byte, then the request as `weir explain --request` takes it.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "policy/envoy/request_story.h"
#include "policy/load.h"

namespace {

struct Entry {
  std::string_view key;
  std::string_view value;
};

void require(bool holds) {
  if (!holds) std::abort();
}

// A request that goes a limit's own way meets a limit: this one, or, where a value holds a star,
// one that comes before it.
void walk(const weir::policy::Domain& domain) {
  for (const weir::policy::DescriptorLimit& limit : domain.limits) {
    require(limit.scope < domain.scopes.size());
    require(!limit.rule || *limit.rule < domain.scopes[limit.scope].route.rules.size());
    std::vector<Entry> way;
    bool plain = true;
    for (const auto& level : limit.levels) {
      way.push_back({level.key, level.value});
      plain = plain && !level.value.empty() && level.value.find('*') == std::string::npos;
    }
    if (plain) require(domain.find(way) == &limit);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = input.find('\0');
  const weir::policy::Loaded loaded = weir::policy::load_text(input.substr(0, end), "fuzz.yaml");
  if (!loaded.model) {
    require(!loaded.faults.empty());
    for (const weir::Fault& fault : loaded.faults) require(!fault.problem.empty());
    return 0;
  }
  for (const weir::policy::Domain& domain : loaded.model->domains) walk(domain);
  if (end != input.npos) {
    (void)weir::policy::request_story(*loaded.model, input.substr(end + 1));
  }
  return 0;
}
