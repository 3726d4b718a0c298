#include "guard/route_limiter.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "guard/descriptor_values.h"
#include "guard/impl.h"
#include "guard/metered_call.h"

namespace weir::guard {
namespace {

constexpr std::string_view kRemoteAddress = "remote_address";
constexpr std::string_view kIp = "ip";
// The entry that names what a late report settles.
constexpr std::string_view kReservation = "weir_reservation";

// Descriptors beyond so many share the last place: their statuses are then alike.
constexpr std::size_t kPlaces = 64;

std::string_view source_name(std::string_view key) noexcept {
  return key == kRemoteAddress ? kIp : key;
}

std::uint64_t place_bit(std::size_t descriptor) noexcept {
  return std::uint64_t{1} << std::min(descriptor, kPlaces - 1);
}

LimitUnit unit_of(const limit::Numbers& numbers) noexcept {
  using std::chrono::hours;
  constexpr std::pair<Nanos, LimitUnit> kUnits[] = {{std::chrono::seconds(1), LimitUnit::second},
                                                    {std::chrono::minutes(1), LimitUnit::minute},
                                                    {hours(1), LimitUnit::hour},
                                                    {hours(24), LimitUnit::day},
                                                    {hours(24 * 7), LimitUnit::week},
                                                    {hours(24 * 30), LimitUnit::month},
                                                    {hours(24 * 365), LimitUnit::year}};
  for (const auto& [length, unit] : kUnits) {
    if (length == Nanos(numbers.period_ns)) return unit;
  }
  return LimitUnit::unknown;
}

bool denies(const RuleReport& rule) noexcept {
  return !rule.fits && !rule.shadow;
}

// Whether `a` is the one to tell of: it denies and waits longer, or has less left.
bool tighter(const RuleReport& a, const RuleReport& b) noexcept {
  if (denies(a) != denies(b)) return denies(a);
  if (denies(a)) {
    if (a.never_fits != b.never_fits) return a.never_fits;
    return a.retry_after.value_or(Nanos::zero()) > b.retry_after.value_or(Nanos::zero());
  }
  if (a.remaining.has_value() != b.remaining.has_value()) return a.remaining.has_value();
  return a.remaining.value_or(0) < b.remaining.value_or(0);
}

void describe(const RuleReport& rule, LimitUnit unit, DescriptorStatus& status) noexcept {
  status.over = denies(rule);
  // Without knowing what is left nothing is said: 0 would be a claim.
  if (!rule.remaining) return;
  status.limit = {.requests_per_unit = rule.limit, .unit = unit, .name = rule.rule};
  status.remaining = rule.fits ? *rule.remaining : 0;
  status.until_reset = status.over && rule.retry_after ? rule.retry_after : rule.reset_after;
}

// Which descriptors a rule counts by.
struct Touched {
  std::uint64_t identity = 0;
  std::uint64_t places = 0;  // all of them where it counts by nothing that they have
  LimitUnit unit = LimitUnit::unknown;
};

// One ask on its way. Where the answer is there before the asking returns, it is answered at once;
// whichever of the two sides comes second goes on.
struct Pending {
  enum Phase : int { asking, left, answered };

  std::atomic<int> phase{asking};
  std::vector<Touched> touched;
  std::size_t descriptors = 0;
  Decision decision;
  RateLimitListener* listener = nullptr;
  std::uint64_t ticket = 0;

  void compose(RateLimitAnswer& answer);
};

void Pending::compose(RateLimitAnswer& answer) {
  answer.statuses.resize(descriptors);
  for (std::size_t i = 0; i < descriptors; ++i) {
    DescriptorStatus& status = answer.statuses[i];
    status = {};
    const RuleReport* tightest = nullptr;
    LimitUnit unit = LimitUnit::unknown;
    for (const RuleReport& report : decision.rules()) {
      const auto found = std::find_if(touched.begin(), touched.end(), [&](const Touched& each) {
        return each.identity == report.charge.identity;
      });
      // A rule that a reload brought in between counts for all.
      const bool counts = found == touched.end() || (found->places & place_bit(i)) != 0;
      if (!counts || (tightest != nullptr && !tighter(report, *tightest))) continue;
      tightest = &report;
      unit = found == touched.end() ? LimitUnit::unknown : found->unit;
    }
    if (tightest != nullptr) describe(*tightest, unit, status);
    if (decision.verdict == Verdict::refused) status = {.over = true};
  }
  answer.decision = std::move(decision);
}

// Kept for the next ask of this thread.
thread_local std::unique_ptr<Pending> spare;

std::unique_ptr<Pending> take_pending() {
  if (!spare) return std::make_unique<Pending>();
  spare->phase.store(Pending::asking, std::memory_order_relaxed);
  spare->touched.clear();
  return std::move(spare);
}

// The values of one request, put together from all descriptors.
class UnitedValues {
 public:
  // False where no reading is safe.
  bool take(const RateLimitAsk& ask, const policy::Route& route) noexcept {
    for (const AskedDescriptor& descriptor : ask.descriptors) {
      for (const DescriptorEntry& entry : descriptor.entries) {
        if (!add(source_name(entry.key), entry.value, route)) return false;
      }
    }
    return true;
  }
  std::span<const Descriptor> values() const noexcept { return {values_.data(), count_}; }

 private:
  bool add(std::string_view name, std::string_view value, const policy::Route& route) noexcept {
    const bool counted =
        std::any_of(route.sources.begin(), route.sources.end(),
                    [&](const policy::Source& source) { return source.text == name; });
    if (!counted) return true;
    for (const Descriptor& known : values()) {
      if (known.name == name) return known.value == value;
    }
    if (count_ == values_.size()) return false;
    values_[count_++] = {name, value};
    return true;
  }

  std::array<Descriptor, kMaxDescriptors> values_;
  std::size_t count_ = 0;
};

std::uint64_t places_of(const policy::Rule& rule, const RateLimitAsk& ask) noexcept {
  std::uint64_t places = 0;
  for (std::size_t i = 0; i < ask.descriptors.size(); ++i) {
    for (const DescriptorEntry& entry : ask.descriptors[i].entries) {
      for (const policy::Source& source : rule.by) {
        if (source.text == source_name(entry.key)) places |= place_bit(i);
      }
    }
  }
  return places != 0 ? places : ~std::uint64_t{0};
}

// A request is one step with one cost: the largest that a descriptor names. All probes: a probe.
std::uint64_t cost_of(const RateLimitAsk& ask) noexcept {
  if (ask.descriptors.empty()) return ask.hits;
  std::uint64_t cost = 0;
  for (const AskedDescriptor& descriptor : ask.descriptors) {
    cost = std::max(cost, descriptor.hits.value_or(ask.hits));
  }
  return cost;
}

// What a descriptor says of its own that is more than a request is a report: what was used is known
// only when it is over, and who reports it does not read the answer.
bool is_report(const RateLimitAsk& ask) noexcept {
  return std::any_of(ask.descriptors.begin(), ask.descriptors.end(),
                     [](const AskedDescriptor& each) { return each.hits.value_or(0) > 1; });
}

// What goes with its check; null: nothing.
Guard::Impl::CallRef call_for(const RateLimitAsk& ask) {
  const bool late = is_report(ask);
  if (!late && ask.idempotency_key.empty()) return nullptr;
  auto call = std::make_shared<MeteredCall>();
  call->idempotency_key = ask.idempotency_key;
  call->late = late;
  return call;
}

// The reservation that the ask settles, and as how many units; empty: it settles none.
struct Settles {
  std::string_view reservation;
  std::uint64_t units = 0;
};
Settles settled_by(const RateLimitAsk& ask) noexcept {
  for (const AskedDescriptor& descriptor : ask.descriptors) {
    for (const DescriptorEntry& entry : descriptor.entries) {
      if (entry.key == kReservation) return {entry.value, descriptor.hits.value_or(ask.hits)};
    }
  }
  return {};
}

}  // namespace

bool RouteLimiter::decide(const RateLimitAsk& ask, RateLimitAnswer& answer,
                          RateLimitListener& listener, std::uint64_t ticket) {
  Guard::Impl& impl = guard_.impl();
  std::unique_ptr<Pending> pending = take_pending();
  UnitedValues values;
  CheckOptions options{.cost = cost_of(ask), .deadline = ask.deadline};
  std::string_view name;
  bool meters = false;
  {
    const Guard::Impl::PolicyRef policy = impl.policy();
    const BoundRoute* route = policy->find(ask.domain);
    if (route == nullptr) {
      answer.decision = impl.decide_unmatched(options.cost);
      answer.statuses.assign(ask.descriptors.size(), {.over = !answer.decision.allowed()});
      spare = std::move(pending);
      return true;
    }
    if (!values.take(ask, *route->route)) {
      answer.decision =
          impl.refuse_invalid("a source has two different values, or there are more than 64 values",
                              route->name, options.cost, route->metrics);
      answer.statuses.assign(ask.descriptors.size(), {.over = true});
      spare = std::move(pending);
      return true;
    }
    name = route->name;
    meters = impl.meters(*route);
    for (const BoundRule& rule : route->rules) {
      pending->touched.push_back({.identity = rule.rule->identity,
                                  .places = places_of(*rule.rule, ask),
                                  .unit = unit_of(rule.rule->numbers)});
    }
  }
  pending->descriptors = ask.descriptors.size();
  pending->listener = &listener;
  pending->ticket = ticket;
  Pending* shared = pending.release();
  const auto answered = [shared](Decision decision) {
    shared->decision = std::move(decision);
    if (shared->phase.exchange(Pending::answered, std::memory_order_acq_rel) != Pending::left) {
      return;
    }
    const std::unique_ptr<Pending> owned(shared);
    RateLimitAnswer late;
    owned->compose(late);
    owned->listener->answered(owned->ticket, std::move(late));
  };
  const Settles settles = meters ? settled_by(ask) : Settles{};
  if (!settles.reservation.empty()) {
    impl.settle_report_async(name, settles.reservation, settles.units, answered);
  } else if (meters && is_report(ask)) {
    impl.report_async(name, DescriptorValues(values.values()), options.cost, answered);
  } else {
    impl.check_async(name, DescriptorValues(values.values()), options, answered, call_for(ask));
  }
  if (shared->phase.exchange(Pending::left, std::memory_order_acq_rel) != Pending::answered) {
    return false;
  }
  pending.reset(shared);
  pending->compose(answer);
  spare = std::move(pending);
  return true;
}

void RouteLimiter::refuse_unread(RateLimitAnswer& answer) {
  answer.decision = guard_.impl().refuse_invalid(
      "the message holds too many descriptors and entries", {}, 1, render::Metrics::kNoRoute);
}

}  // namespace weir::guard
