#include "weir/guard.h"

#include "guard/compose.h"
#include "guard/descriptor_values.h"
#include "guard/impl.h"

namespace weir {

Guard::Guard(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Guard::Guard(Guard&&) noexcept = default;
Guard& Guard::operator=(Guard&&) noexcept = default;
Guard::~Guard() = default;

Decision Guard::check(std::string_view route, std::span<const Descriptor> descriptors,
                      CheckOptions options) {
  return impl_->check(route, guard::DescriptorValues(descriptors), options);
}

void Guard::check_async(std::string_view route, std::span<const Descriptor> descriptors,
                        CheckOptions options, std::function<void(Decision)> done) {
  impl_->check_async(route, guard::DescriptorValues(descriptors), options, std::move(done));
}

Decision Guard::check_request(const HttpRequest& request, CheckOptions options) {
  return impl_->check_request(request, options);
}

void Guard::check_request_async(const HttpRequest& request, CheckOptions options,
                                std::function<void(Decision)> done) {
  impl_->check_request_async(request, options, std::move(done));
}

Decision Guard::wait(std::string_view route, std::span<const Descriptor> descriptors,
                     Nanos patience, CheckOptions options) {
  Clock& clock = impl_->clock();
  const MonoTime give_up = clock.mono() + patience;
  for (;;) {
    Decision decision = check(route, descriptors, options);
    if (decision.verdict != Verdict::limited || !decision.retry_after) return decision;
    const MonoTime again = clock.mono() + *decision.retry_after;
    if (again > give_up) return decision;
    clock.sleep_until(again);
  }
}

Decision Guard::peek(std::string_view route, std::span<const Descriptor> descriptors) {
  return check(route, descriptors, {.cost = 0});
}

Result<void> Guard::refund(const Decision& decision) {
  return impl_->refund(decision);
}

Result<void> Guard::reset(std::string_view route, std::span<const Descriptor> descriptors) {
  return impl_->reset(route, guard::DescriptorValues(descriptors));
}

Result<Breaker> Guard::breaker(std::string_view name) const {
  return impl_->safeguards().breaker(name);
}

Result<Slot> Guard::acquire(std::string_view name, std::span<const Descriptor> descriptors,
                            AcquireOptions options) {
  auto limit = impl_->safeguards().limit(name);
  if (!limit) return limit.error();
  const std::string key =
      guard::Safeguards::key(**limit, guard::DescriptorValues(descriptors), impl_->digester());
  if (options.patience <= Nanos::zero()) return (*limit)->all.try_acquire(key, options.weight);
  return (*limit)->all.acquire(key, options.weight, options.patience);
}

Result<LeaseAnswer> Guard::lease(std::string_view name, std::span<const Descriptor> descriptors,
                                 const LeaseRequest& request) {
  auto limit = impl_->safeguards().limit(name);
  if (!limit) return limit.error();
  const guard::DescriptorValues values(descriptors);
  return (*limit)->all.lease(guard::Safeguards::key(**limit, values, impl_->digester()), request);
}

Result<LeaseAnswer> Guard::renew_lease(std::string_view name,
                                       std::span<const Descriptor> descriptors,
                                       std::string_view id) {
  auto limit = impl_->safeguards().limit(name);
  if (!limit) return limit.error();
  const guard::DescriptorValues values(descriptors);
  return (*limit)->all.renew(guard::Safeguards::key(**limit, values, impl_->digester()), id);
}

Result<bool> Guard::release_lease(std::string_view name, std::span<const Descriptor> descriptors,
                                  std::string_view id) {
  auto limit = impl_->safeguards().limit(name);
  if (!limit) return limit.error();
  const guard::DescriptorValues values(descriptors);
  return (*limit)->all.release(guard::Safeguards::key(**limit, values, impl_->digester()), id);
}

Result<void> Guard::reload(Policy policy) {
  return impl_->reload(std::move(policy));
}

Policy Guard::policy() const {
  return impl_->policy()->policy();
}

std::uint64_t Guard::generation() const noexcept {
  return impl_->policy()->generation();
}

}  // namespace weir
