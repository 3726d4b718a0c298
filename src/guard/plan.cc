#include "guard/plan.h"

#include <cstddef>
#include <new>
#include <optional>
#include <type_traits>

#include "policy/address.h"

namespace weir::guard {
namespace {

// One value of a request, as it is counted: an address in its canonical bytes, anything else as it
// is. What is no address counts as the text it is: some callers know their peers by other names.
struct Counted {
  bool present = false;
  std::string_view raw;
  std::string_view bytes;
  std::optional<policy::Address> address;  // before grouping
  policy::Address grouped;

  Counted(const policy::Source& source, const policy::Model& model, const Values& values) noexcept
      : raw(values.value(source)), bytes(raw) {
    present = raw.data() != nullptr;
    if (!present || source.kind != policy::SourceKind::ip) return;
    address = policy::Address::parse_hop(raw);
    if (!address) return;
    grouped = policy::grouped(*address, model.ipv6_prefix);
    bytes = policy::key_bytes(grouped);
  }
  Counted(const Counted&) = delete;  // `bytes` may point into `grouped`
  Counted& operator=(const Counted&) = delete;
};
static_assert(std::is_trivially_destructible_v<Counted>);

// The values of a route's sources, each found once. Only what is used is constructed.
class CountedValues {
 public:
  CountedValues(const policy::Route& route, const policy::Model& model,
                const Values& values) noexcept {
    for (const policy::Source& source : route.sources)
      new (at(count_++)) Counted(source, model, values);
  }
  const Counted& operator[](std::size_t slot) const noexcept {
    return *std::launder(reinterpret_cast<const Counted*>(bytes_ + slot * sizeof(Counted)));
  }

 private:
  void* at(std::size_t slot) noexcept { return bytes_ + slot * sizeof(Counted); }

  std::size_t count_ = 0;
  alignas(Counted) std::byte bytes_[kMaxRules * policy::kMaxSources * sizeof(Counted)];
};

bool exempts(const policy::Rule& rule, const Counted& value) noexcept {
  for (const policy::Exemption& exemption : rule.exempt) {
    if (exemption.block ? value.address && policy::contains(*exemption.block, *value.address)
                        : exemption.text == value.raw) {
      return true;
    }
  }
  return false;
}

const limit::Numbers* numbers_for(const policy::Rule& rule, const CountedValues& values) noexcept {
  if (rule.overrides.empty() || rule.slots.size() != 1) return &rule.numbers;
  const auto found = rule.overrides.find(values[rule.slots.front()].bytes);
  return found != rule.overrides.end() ? &found->second : &rule.numbers;
}

}  // namespace

Plan::Outcome Plan::make(const BoundRoute& to, const BoundPolicy& policy, const Values& values,
                         std::uint64_t units, const KeyHasher& hasher,
                         const ValueDigester& digester) noexcept {
  route = &to;
  count = 0;
  absent = 0;
  used_ = 0;
  const CountedValues found(*to.route, policy.model(), values);
  if (!values.complete()) return Outcome::unreadable;
  for (const BoundRule& bound : to.rules) {
    const policy::Rule& rule = *bound.rule;
    policy::KeyWriter key(keys_.data() + used_, rule.identity);
    bool exempt = false;
    for (const std::uint8_t slot : rule.slots) {
      const Counted& value = found[slot];
      if (value.present) {
        exempt = exempt || exempts(rule, value);
        key.value(value.bytes, digester);
        continue;
      }
      if (rule.strict) return Outcome::missing_value;
      ++absent;
      key.absent();
    }
    if (exempt) continue;
    const std::string_view text = key.view();
    used_ += text.size();
    rules[count] = &bound;
    counters[count] = {.numbers = numbers_for(rule, found),
                       .rule = bound.name,
                       .identity = rule.identity,
                       .digest = hasher(text),
                       .key = text,
                       .cost = units,
                       .op = store::Op::take,
                       .shadow = bound.shadow,
                       .generation = static_cast<std::uint32_t>(policy.generation())};
    ++count;
  }
  return count == 0 ? Outcome::nothing_applies : Outcome::ready;
}

}  // namespace weir::guard
