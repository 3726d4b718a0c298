#include "guard/plan.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <new>
#include <optional>
#include <string>
#include <type_traits>

#include "policy/address.h"

namespace weir::guard {
namespace {

// One value of a request, as it is counted: an address in its canonical bytes, anything else as it
// is. An `ip` that is no address is absent: a client that can bring text there ("1.2.3.4, 5.6.7.8")
// must not have a fresh counter by each spelling.
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
    present = address.has_value();
    if (!present) return;
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

// The digest of a counter's key, which is `text`. Where the rule counts by one value and the key
// has it as it is, it is made of the value where the caller keeps it: the text was written just
// now.
KeyDigest digest_of(std::string_view text, const policy::Rule& rule, const CountedValues& values,
                    const CounterHasher& hasher) noexcept {
  constexpr std::size_t kHead = policy::KeyWriter::kIdentityBytes;
  if (rule.slots.size() == 1) [[likely]] {
    const std::string_view value = values[rule.slots.front()].bytes;
    if (text.size() == kHead + 1 + value.size()) [[likely]]
      return hasher(rule.identity, static_cast<unsigned char>(text[kHead]), value);
  }
  return hasher(text);
}

}  // namespace

Plan::Outcome Plan::make(const BoundRoute& to, const BoundPolicy& policy, const Values& values,
                         std::uint64_t units, const CounterHasher& hasher,
                         const ValueDigester& digester) noexcept {
  route = &to;
  count = 0;
  absent = 0;
  shadows = false;
  marks = 0;
  used_ = 0;
  const CountedValues found(*to.route, policy.model(), values);
  fault = values.fault();
  if (!fault.empty()) return Outcome::unreadable;
  for (const BoundRule& bound : to.rules) {
    const policy::Rule& rule = *bound.rule;
    policy::KeyWriter key(keys_.data() + used_, rule.identity);
    bool exempt = false;
    for (std::size_t position = 0; position < rule.slots.size(); ++position) {
      const Counted& value = found[rule.slots[position]];
      if (value.present) {
        exempt = exempt || exempts(rule, value);
        key.value(value.bytes, digester);
        continue;
      }
      if (rule.strict) {
        strict = &bound;
        lacking = bound.sources[position];
        return Outcome::missing_value;
      }
      ++absent;
      key.absent();
    }
    if (exempt) continue;
    const std::string_view text = key.view();
    used_ += text.size();
    rules[count] = &bound;
    shadows = shadows || bound.shadow;
    // In its place: a copy waits for what was just written.
    ::new (static_cast<void*>(counters.data() + count))
        store::Counter{.numbers = numbers_for(rule, found),
                       .rule = bound.name,
                       .identity = rule.identity,
                       .digest = digest_of(text, rule, found, hasher),
                       .key = text,
                       .cost = units,
                       .op = store::Op::take,
                       .shadow = bound.shadow,
                       .generation = static_cast<std::uint32_t>(policy.generation())};
    ++count;
  }
  return count == 0 ? Outcome::nothing_applies : Outcome::ready;
}

namespace {

constexpr std::uint64_t kKeyMark = policy::KeyWriter::own_identity('k', 'e', 'y');
constexpr std::uint64_t kRequestMark = policy::KeyWriter::own_identity('r', 'e', 'q');

// One unit that comes back after exactly so long.
const limit::Numbers& mark_numbers() {
  static const limit::Numbers numbers =
      limit::Numbers::make({.algorithm = Algorithm::gcra,
                            .limit = 1,
                            .period = {.length = kIdempotencyMemory},
                            .burst = std::nullopt})
          .value();
  return numbers;
}

// Behind its length, so that no two lists of texts are one text.
void append_framed(std::string& out, std::string_view text) {
  for (int shift = 0; shift < 64; shift += 8)
    out.push_back(static_cast<char>(text.size() >> shift));
  out += text;
}

// Mark `i` of a request, its key written to `room`.
store::Counter mark_of(const RequestName& name, std::size_t i, char* room, std::uint32_t generation,
                       const CounterHasher& hasher, const ValueDigester& digester) {
  const std::uint64_t identity = i == 0 ? kKeyMark : kRequestMark;
  policy::KeyWriter text(room, identity);
  text.beside(name.place);
  std::array<char, 2 * sizeof(ValueDigester::Digest)> own;
  std::copy(name.key.begin(), name.key.end(), own.begin());
  std::copy(name.asked.begin(), name.asked.end(), own.begin() + name.key.size());
  text.value({own.data(), i == 0 ? name.key.size() : own.size()}, digester);
  return {.numbers = &mark_numbers(),
          .rule = "idempotency key",
          .identity = identity,
          .digest = hasher(text.view()),
          .key = text.view(),
          .cost = 1,
          .op = store::Op::take,
          .shadow = false,
          .generation = generation};
}

}  // namespace

std::vector<store::Counter> Plan::drains() const {
  std::vector<store::Counter> out;
  for (std::size_t i = 0; i < count; ++i) {
    if (counters[i].cost == 0) continue;
    out.push_back(counters[i]);
    out.back().op = store::Op::drain;
  }
  return out;
}

void Plan::name_request(std::string_view key, std::uint64_t metered, const CounterHasher& hasher,
                        const ValueDigester& digester) {
  std::string tenant;
  std::string asked;
  std::size_t tenant_at = count;
  append_framed(tenant, route->name);
  append_framed(tenant, key);
  for (std::size_t i = 0; i < count; ++i) {
    if ((metered >> i & 1) != 0) {
      if (tenant_at == count) tenant_at = i;
      append_framed(tenant, counters[i].key);
    }
    append_framed(asked, counters[i].key);
  }
  append_framed(asked, std::to_string(counters[0].cost));
  request_key = key;
  request.key = digester(tenant);
  request.asked = digester(tenant + asked);
  request.place = policy::KeyWriter::place_of(counters[tenant_at < count ? tenant_at : 0].key);
  marks = kMarks;
  for (std::size_t i = 0; i < kMarks; ++i) {
    counters[count + i] =
        mark_of(request, i, keys_.data() + used_, counters[0].generation, hasher, digester);
    used_ += counters[count + i].key.size();
  }
}

RequestMarks::RequestMarks(const RequestName& name, std::uint32_t generation,
                           const CounterHasher& hasher, const ValueDigester& digester) {
  for (std::size_t i = 0; i < counters_.size(); ++i)
    counters_[i] = mark_of(name, i, keys_[i].data(), generation, hasher, digester);
}

Plan::Marked Plan::marked(std::span<const store::Finding> findings) const noexcept {
  if (marks == 0 || findings.size() < count + marks) return Marked::fresh;
  const auto there = [&](std::size_t i) {
    return findings[count + i].step.outcome != limit::Outcome::allowed;
  };
  if (there(1)) return Marked::replayed;
  return there(0) ? Marked::conflict : Marked::fresh;
}

}  // namespace weir::guard
