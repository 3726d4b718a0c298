#include "guard/domain_plan.h"

#include <algorithm>
#include <limits>

#include "policy/envoy/counter_name.h"
#include "policy/key.h"
#include "policy/period.h"
#include "weir/guard.h"

namespace weir::guard {
namespace {

policy::PeriodUnit period_unit(LimitUnit unit) noexcept {
  switch (unit) {
    case LimitUnit::minute:
      return policy::PeriodUnit::minute;
    case LimitUnit::hour:
      return policy::PeriodUnit::hour;
    case LimitUnit::day:
      return policy::PeriodUnit::day;
    case LimitUnit::week:
      return policy::PeriodUnit::week;
    case LimitUnit::month:
      return policy::PeriodUnit::month;
    case LimitUnit::year:
      return policy::PeriodUnit::year;
    case LimitUnit::second:
    case LimitUnit::unknown:
      break;
  }
  return policy::PeriodUnit::second;
}

// A window of that unit as envoyproxy/ratelimit lays it: a multiple of its length since 1970.
Nanos length_of(LimitUnit unit) noexcept {
  using std::chrono::hours;
  switch (unit) {
    case LimitUnit::minute:
      return std::chrono::minutes(1);
    case LimitUnit::hour:
      return hours(1);
    case LimitUnit::day:
      return hours(24);
    case LimitUnit::week:
      return hours(24 * 7);
    case LimitUnit::month:
      return hours(24 * 30);
    case LimitUnit::year:
      return hours(24 * 365);
    case LimitUnit::second:
    case LimitUnit::unknown:
      break;
  }
  return std::chrono::seconds(1);
}

// Each text behind its length, so that no two lists of entries come out alike.
void append_entry(std::string& out, const DescriptorEntry& entry) {
  for (const std::string_view text : {entry.key, entry.value}) {
    for (int shift = 0; shift < 32; shift += 8)
      out += static_cast<char>(text.size() >> shift & 0xff);
    out += text;
  }
}

bool within_bounds(const RateLimitAsk& ask) noexcept {
  for (const AskedDescriptor& descriptor : ask.descriptors) {
    for (const DescriptorEntry& entry : descriptor.entries) {
      if (entry.key.size() > kMaxValueBytes || entry.value.size() > kMaxValueBytes) return false;
    }
  }
  return true;
}

std::uint64_t hits_of(const AskedDescriptor& descriptor, const RateLimitAsk& ask) noexcept {
  return descriptor.hits.value_or(ask.hits);
}

// No sum is ever less than its parts.
std::uint64_t sum(std::uint64_t a, std::uint64_t b) noexcept {
  return a > std::numeric_limits<std::uint64_t>::max() - b
             ? std::numeric_limits<std::uint64_t>::max()
             : a + b;
}

constexpr std::size_t kIdentityBytes = 8;

store::Kept kept_in(const BoundDomain& domain) noexcept {
  return domain.envoyproxy_prefix ? store::Kept::envoyproxy : store::Kept::weir;
}

bool is_late(const AskedDescriptor& descriptor) noexcept {
  return descriptor.hits.value_or(0) > 1;
}

}  // namespace

bool DomainPlan::make(const RateLimitAsk& ask, const BoundDomain& domain, std::uint32_t generation,
                      const CounterHasher& hasher, const ValueDigester& digester) {
  generation_ = generation;
  hasher_ = &hasher;
  digester_ = &digester;
  count_ = 0;
  cost_ = 0;
  keys_used_ = 0;
  met_.clear();
  if (!within_bounds(ask)) return false;
  find_limits(ask, domain);
  put_out_of_force();
  keys_.resize(room_for_keys(ask, domain));
  for (std::size_t i = 0; i < met_.size(); ++i) {
    Met& met = met_[i];
    const bool fits = met.brought ? add_brought(met, ask.descriptors[i], ask, domain)
                                  : add_configured(met, ask.descriptors[i], ask, domain);
    if (!fits) return false;
  }
  return true;
}

std::size_t DomainPlan::room_for_keys(const RateLimitAsk& ask, const BoundDomain& domain) const {
  if (!domain.envoyproxy_prefix) {
    return std::min(met_.size(), store::kMaxCounters) * policy::KeyWriter::kMaxKeyBytes;
  }
  std::size_t size = 0;
  for (std::size_t i = 0; i < met_.size(); ++i) {
    if (!met_[i].brought && met_[i].limit == nullptr) continue;
    size += kIdentityBytes + name_size(met_[i], ask.descriptors[i], domain);
  }
  return size;
}

std::size_t DomainPlan::name_size(const Met& met, const AskedDescriptor& descriptor,
                                  const BoundDomain& domain) {
  return policy::counter_name_size(*domain.envoyproxy_prefix, domain.name, descriptor.entries,
                                   met.brought ? nullptr : met.limit->limit);
}

// The identity, and the other server's name behind it.
std::string_view DomainPlan::write_name(const Met& met, const AskedDescriptor& descriptor,
                                        const BoundDomain& domain, std::uint64_t identity) {
  char* const at = keys_.data() + keys_used_;
  (void)policy::KeyWriter(at, identity);
  policy::write_counter_name(*domain.envoyproxy_prefix, domain.name, descriptor.entries,
                             met.brought ? nullptr : met.limit->limit, at + kIdentityBytes);
  return {at, kIdentityBytes + name_size(met, descriptor, domain)};
}

void DomainPlan::find_limits(const RateLimitAsk& ask, const BoundDomain& domain) {
  for (const AskedDescriptor& descriptor : ask.descriptors) {
    Met& met = met_.emplace_back();
    // Of a unit that the protocol does not have nothing can be made: the configured limit holds.
    if (descriptor.limit && descriptor.limit->unit != LimitUnit::unknown) {
      met.brought = descriptor.limit;
      continue;
    }
    const policy::DescriptorLimit* found = domain.domain->find(descriptor.entries);
    if (found == nullptr) continue;
    met.limit = &domain.limits[static_cast<std::size_t>(found - domain.domain->limits.data())];
  }
}

void DomainPlan::put_out_of_force() noexcept {
  for (const Met& by : met_) {
    if (by.limit == nullptr) continue;
    for (const std::string& name : by.limit->limit->replaces) {
      for (Met& met : met_) {
        if (met.limit != nullptr && met.limit->name == name) met.replaced = true;
      }
    }
  }
}

bool DomainPlan::add_configured(Met& met, const AskedDescriptor& descriptor,
                                const RateLimitAsk& ask, const BoundDomain& domain) {
  if (met.limit == nullptr || met.replaced || met.limit->rule == nullptr) return true;
  if (count_ == store::kMaxCounters) return false;
  const policy::DescriptorLimit& limit = *met.limit->limit;
  const std::uint64_t identity = met.limit->rule->identity;
  std::string_view key;
  if (domain.envoyproxy_prefix) {
    key = write_name(met, descriptor, domain, identity);
  } else {
    policy::KeyWriter writer(keys_.data() + keys_used_, identity);
    for (std::size_t level = 0; level < limit.levels.size(); ++level) {
      // Values that share a counter stand in the identity, by their pattern.
      if (!limit.levels[level].shares) writer.value(descriptor.entries[level].value, *digester_);
    }
    key = writer.view();
  }
  return add(
      met,
      {.numbers = &met.limit->rule->numbers,
       .rule = met.limit->path,
       .identity = identity,
       .key = key,
       .cost = hits_of(descriptor, ask),
       .shadow = limit.shadow || limit.quota,
       .kept = kept_in(domain)},
      {.limit = met.limit, .quota = limit.quota && !limit.shadow, .late = is_late(descriptor)});
}

bool DomainPlan::add_brought(Met& met, const AskedDescriptor& descriptor, const RateLimitAsk& ask,
                             const BoundDomain& domain) {
  if (count_ == store::kMaxCounters) return false;
  const auto numbers = limit::Numbers::make({.algorithm = Algorithm::fixed_window,
                                             .limit = met.brought->requests_per_unit,
                                             .period = {.length = length_of(met.brought->unit)},
                                             .burst = std::nullopt});
  if (!numbers) return false;
  brought_numbers_[count_] = *numbers;
  const std::uint64_t identity = domain.domain->override_identity(period_unit(met.brought->unit));
  std::string_view key;
  if (domain.envoyproxy_prefix) {
    key = write_name(met, descriptor, domain, identity);
  } else {
    entries_.clear();
    for (const DescriptorEntry& entry : descriptor.entries) append_entry(entries_, entry);
    policy::KeyWriter writer(keys_.data() + keys_used_, identity);
    writer.value(entries_, *digester_);
    key = writer.view();
  }
  return add(met,
             {.numbers = &brought_numbers_[count_],
              .rule = domain.name,
              .identity = identity,
              .key = key,
              .cost = hits_of(descriptor, ask),
              .kept = kept_in(domain)},
             {.limit = &domain.brought, .late = is_late(descriptor)});
}

const BoundLimit& DomainPlan::strictest() const noexcept {
  const BoundLimit* found = nullptr;
  for (std::size_t i = 0; i < count_; ++i) {
    if (watches(i)) continue;
    // The enumeration names the strictest first.
    const BoundLimit* limit = asked_[i].limit;
    if (found == nullptr || limit->scope->when_store_fails < found->scope->when_store_fails)
      found = limit;
  }
  return found != nullptr ? *found : *asked_[0].limit;
}

std::uint64_t DomainPlan::quotas() const noexcept {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    if (asked_[i].quota) bits |= std::uint64_t{1} << i;
  }
  return bits;
}

std::uint64_t DomainPlan::late() const noexcept {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    if (asked_[i].late) bits |= std::uint64_t{1} << i;
  }
  return bits;
}

bool DomainPlan::add(Met& met, const store::Counter& counter, const Asked& asked) {
  const KeyDigest digest = (*hasher_)(counter.key);
  std::size_t at = 0;
  while (at < count_ && counters_[at].digest != digest) ++at;
  met.counter = at;
  if (at < count_) {
    counters_[at].cost = sum(counters_[at].cost, counter.cost);
    asked_[at].late = asked_[at].late || asked.late;
  } else {
    keys_used_ += counter.key.size();
    counters_[at] = counter;
    counters_[at].digest = digest;
    counters_[at].generation = generation_;
    asked_[at] = asked;
    ++count_;
  }
  cost_ = std::max(cost_, counters_[at].cost);
  return true;
}

}  // namespace weir::guard
