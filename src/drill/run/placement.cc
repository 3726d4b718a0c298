#include "drill/run/placement.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/key_digest.h"
#include "drill/run/call_plan.h"
#include "policy/address.h"
#include "policy/key.h"
#include "store/redis/topology/key_slot.h"

namespace weir::drill {

Placement::Placement(const policy::Model& model, std::uint32_t shards)
    : model_(model),
      shards_(shards),
      keys_(store::redis::KeySpace::make(model.store.prefix, model.store.prefix).value()) {}

bool Placement::is_struck(const policy::Rule& rule, std::uint32_t client) const {
  if (shards_ <= 1) return true;
  std::array<char, policy::KeyWriter::kMaxKeyBytes> bytes;
  policy::KeyWriter key(bytes.data(), rule.identity);
  // No value of a drill's is so long that it is digested.
  const ValueDigester digester = ValueDigester::from_text("");
  for (const policy::Source& source : rule.by) {
    const std::string value = value_of(source.text, client);
    const auto address =
        source.kind == policy::SourceKind::ip ? policy::Address::parse_hop(value) : std::nullopt;
    if (address) {
      const policy::Address grouped = policy::grouped(*address, model_.ipv6_prefix);
      key.value(policy::key_bytes(grouped), digester);
    } else {
      key.value(value, digester);
    }
  }
  return std::uint32_t{keys_.slot(key.view())} * shards_ / store::redis::kSlots == 0;
}

bool Placement::is_struck(const policy::Route& route, std::uint32_t client) const {
  return std::any_of(route.rules.begin(), route.rules.end(),
                     [&](const policy::Rule& rule) { return is_struck(rule, client); });
}

}  // namespace weir::drill
