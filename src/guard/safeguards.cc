#include "guard/safeguards.h"

#include <array>
#include <mutex>
#include <set>

#include "policy/key.h"
#include "policy/names.h"
#include "render/breaker_metrics.h"

namespace weir::guard {
namespace {

Error no_such(std::string_view what, std::string_view name, const std::set<std::string>& known) {
  return Error{ErrorCode::not_found, "the policy has no " + std::string(what) + " '" +
                                         std::string(name) + "'; it has: " + policy::joined(known)};
}

}  // namespace

Safeguards::Safeguards(const policy::Model& model, Clock& clock, BreakerListener listener)
    : clock_(clock), breakers_({.clock = &clock, .listener = std::move(listener)}) {
  apply(model);
}

// The policy has been checked, so nothing here is refused.
void Safeguards::apply(const policy::Model& model) {
  std::set<std::string, std::less<>> named;
  for (const policy::BreakerSpec& spec : model.breakers) {
    named.insert(spec.name);
    Result<Breaker> breaker = breakers_.put(spec.name, spec.config);
    if (!breaker) continue;
    // What an operator set stands until he takes it back; shadow comes and goes with the policy.
    const BreakerMode mode = breaker->mode();
    if (mode == BreakerMode::automatic && spec.shadow) breaker->set_mode(BreakerMode::shadow);
    if (mode == BreakerMode::shadow && !spec.shadow) breaker->set_mode(BreakerMode::automatic);
  }
  for (const Breaker& breaker : breakers_.all())
    if (!named.contains(breaker.name())) breakers_.remove(breaker.name());

  std::map<std::string, std::shared_ptr<Limit>, std::less<>> next;
  std::unique_lock lock(mutex_);
  for (const policy::ConcurrencySpec& spec : model.concurrency) {
    const auto before = limits_.find(spec.name);
    if (before != limits_.end() && before->second->by == spec.by) {
      if (before->second->all.configure(spec.config)) next.emplace(spec.name, before->second);
      continue;
    }
    auto all = KeyedConcurrency::make(spec.name, spec.config, &clock_);
    if (all) next.emplace(spec.name, std::make_shared<Limit>(Limit{spec.by, std::move(*all)}));
  }
  limits_ = std::move(next);
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

std::string Safeguards::key(const Limit& limit, const Values& values,
                            const ValueDigester& digester) {
  std::array<char, policy::KeyWriter::kMaxKeyBytes> buffer;
  policy::KeyWriter writer(buffer.data(), 0);
  for (const policy::Source& source : limit.by) {
    const std::string_view value = values.value(source);
    if (value.data() == nullptr)
      writer.absent();
    else
      writer.value(value, digester);
  }
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
  for (const auto& [name, limit] : limits_) out.push_back(limit->all.snapshot());
  return out;
}

void Safeguards::write_metrics(render::Exposition& out) const {
  render::write_breakers(out, breakers());
  render::write_concurrency(out, limits());
}

}  // namespace weir::guard
