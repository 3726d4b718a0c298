#include "guard/safeguards.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <set>

#include "breaker/breaker_core.h"
#include "guard/descriptor_values.h"
#include "policy/key.h"
#include "policy/names.h"
#include "render/breaker_metrics.h"

namespace weir::guard {
namespace {

Error no_such(std::string_view what, std::string_view name, const std::set<std::string>& known) {
  return Error{ErrorCode::not_found, "the policy has no " + std::string(what) + " '" +
                                         std::string(name) + "'; it has: " + policy::joined(known)};
}

Error not_by(std::string_view name, std::string_view given, const std::vector<policy::Source>& by) {
  std::set<std::string> known;
  for (const policy::Source& source : by) known.insert(source.text);
  return Error{ErrorCode::invalid_argument,
               "concurrency limit '" + std::string(name) + "' does not count by '" +
                   std::string(given) + "'; it counts by: " +
                   (known.empty() ? "nothing, it is one for all" : policy::joined(known))};
}

}  // namespace

Safeguards::Safeguards(const policy::Model& model, Clock& clock, BreakerListener listener)
    : clock_(clock), breakers_({.clock = &clock, .listener = std::move(listener)}) {
  deliver(apply(model));
}

// The policy has been checked, so nothing here is refused.
std::vector<Breaker> Safeguards::apply(const policy::Model& model) {
  // Whoever is told of a breaker may load a policy, which takes these locks and its caller's.
  const breaker::HoldEvents hold;
  std::lock_guard sharing(sharing_);
  std::vector<Breaker> touched = breakers_.all();
  std::set<std::string, std::less<>> named;
  shared_breakers_.clear();
  for (const policy::BreakerSpec& spec : model.breakers) {
    named.insert(spec.name);
    if (spec.shared) shared_breakers_.insert(spec.name);
    Result<Breaker> breaker = breakers_.put(spec.name, spec.config);
    if (!breaker) continue;
    touched.push_back(*breaker);
    // What an operator set stands until he takes it back, or its time is over.
    BreakerCore::of(*breaker)->set_policy_mode(spec.shadow ? BreakerMode::shadow
                                                           : BreakerMode::automatic);
  }
  for (const Breaker& breaker : breakers_.all())
    if (!named.contains(breaker.name())) breakers_.remove(breaker.name());

  std::map<std::string, std::shared_ptr<Limit>, std::less<>> next;
  {
    std::unique_lock lock(mutex_);
    for (const policy::ConcurrencySpec& spec : model.concurrency) {
      const auto before = limits_.find(spec.name);
      if (before != limits_.end() && before->second->by == spec.by &&
          (before->second->shared != nullptr) == spec.shared) {
        if (!before->second->all.configure(spec.config)) continue;
        if (spec.shared) before->second->shared->configure(spec.config);
        next.emplace(spec.name, before->second);
        continue;
      }
      auto all = KeyedConcurrency::make(spec.name, spec.config, &clock_);
      if (!all) continue;
      auto shared =
          spec.shared ? std::make_shared<SharedLimit>(spec.name, spec.config, clock_) : nullptr;
      next.emplace(spec.name, std::make_shared<Limit>(spec.by, std::move(*all), std::move(shared)));
    }
    limits_ = std::move(next);
  }
  share_all();
  return touched;
}

void Safeguards::deliver(const std::vector<Breaker>& breakers) noexcept {
  for (const Breaker& breaker : breakers) BreakerCore::of(breaker)->deliver();
}

void Safeguards::share(CircuitDesk* circuits, LeaseDesk* leases) {
  {
    const breaker::HoldEvents hold;
    std::lock_guard sharing(sharing_);
    if (circuits_ != nullptr && circuits == nullptr) circuits_->close();
    if (leases_ != nullptr && leases == nullptr) leases_->close();
    circuits_ = circuits;
    leases_ = leases;
    shares_leases_.store(leases != nullptr, std::memory_order_relaxed);
    share_all();
  }
  deliver(breakers_.all());
}

// Requires: sharing_ is held.
void Safeguards::share_all() {
  if (circuits_ != nullptr) {
    std::vector<Breaker> shared;
    for (const Breaker& breaker : breakers_.all())
      if (shared_breakers_.contains(breaker.name())) shared.push_back(breaker);
    circuits_->watch(std::move(shared));
  }
  if (leases_ == nullptr) return;
  std::vector<std::shared_ptr<SharedLimit>> shared;
  {
    std::shared_lock lock(mutex_);
    for (const auto& [name, limit] : limits_)
      if (limit->shared) shared.push_back(limit->shared);
  }
  leases_->serve(std::move(shared));
}

Result<Breaker> Safeguards::breaker(std::string_view name) const {
  if (auto found = breakers_.find(name)) return *std::move(found);
  std::set<std::string> known;
  for (const Breaker& breaker : breakers_.all()) known.emplace(breaker.name());
  return no_such("breaker", name, known);
}

Result<std::shared_ptr<Safeguards::Limit>> Safeguards::limit(std::string_view name) const {
  std::shared_lock lock(mutex_);
  const auto found = limits_.find(name);
  if (found != limits_.end()) return found->second;
  std::set<std::string> known;
  for (const auto& [each, limit] : limits_) known.insert(each);
  return no_such("concurrency limit", name, known);
}

Result<std::string> Safeguards::key(std::string_view name, Limit& limit,
                                    std::span<const Descriptor> descriptors,
                                    const ValueDigester& digester) {
  for (const Descriptor& each : descriptors) {
    const bool known = std::any_of(limit.by.begin(), limit.by.end(),
                                   [&](const auto& source) { return source.text == each.name; });
    if (!known) return not_by(name, each.name, limit.by);
  }
  const DescriptorValues values(descriptors);
  std::array<char, policy::KeyWriter::kMaxKeyBytes> buffer;
  policy::KeyWriter writer(buffer.data(), limit.shared ? SharedLimit::identity(name) : 0);
  bool absent = false;
  for (const policy::Source& source : limit.by) {
    const std::string_view value = values.value(source);
    if (value.data() == nullptr) {
      writer.absent();
      absent = true;
    } else {
      writer.value(value, digester);
    }
  }
  if (absent) limit.absent.fetch_add(1, std::memory_order_relaxed);
  return std::string(writer.view());
}

std::vector<BreakerSnapshot> Safeguards::breakers() const {
  std::vector<BreakerSnapshot> out;
  for (const Breaker& breaker : breakers_.all()) out.push_back(breaker.snapshot());
  return out;
}

std::vector<ConcurrencySnapshot> Safeguards::limits() const {
  std::shared_lock lock(mutex_);
  std::vector<ConcurrencySnapshot> out;
  for (const auto& [name, limit] : limits_) {
    const bool by_fleet = limit->shared && shares_leases_.load(std::memory_order_relaxed);
    out.push_back(by_fleet ? limit->shared->snapshot() : limit->all.snapshot());
    out.back().absent_values = limit->absent.load(std::memory_order_relaxed);
  }
  return out;
}

void Safeguards::write_metrics(render::Exposition& out) const {
  render::write_breakers(out, breakers());
  render::write_concurrency(out, limits());
}

}  // namespace weir::guard
