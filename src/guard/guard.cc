#include "weir/guard.h"

#include <future>
#include <memory>
#include <utility>

#include "guard/compose.h"
#include "guard/descriptor_values.h"
#include "guard/impl.h"

namespace weir {

Guard::Guard(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Guard::Guard(Guard&&) noexcept = default;
Guard& Guard::operator=(Guard&&) noexcept = default;
Guard::~Guard() = default;

namespace {

// What a request that names itself is asked with: its name is the caller's no longer.
Guard::Impl::CallRef take_name(CheckOptions& options) {
  if (options.idempotency_key.empty()) return nullptr;
  auto call = std::make_shared<guard::MeteredCall>();
  call->idempotency_key = std::exchange(options.idempotency_key, {});
  return call;
}

}  // namespace

Decision Guard::check(std::string_view route, std::span<const Descriptor> descriptors,
                      CheckOptions options) {
  const auto call = take_name(options);
  return impl_->check(route, guard::DescriptorValues(descriptors), options, call);
}

void Guard::check_async(std::string_view route, std::span<const Descriptor> descriptors,
                        CheckOptions options, std::function<void(Decision)> done) {
  const auto call = take_name(options);
  impl_->check_async(route, guard::DescriptorValues(descriptors), options, std::move(done), call);
}

Decision Guard::check_request(const HttpRequest& request, CheckOptions options) {
  const auto call = take_name(options);
  return impl_->check_request(request, options, call);
}

void Guard::check_request_async(const HttpRequest& request, CheckOptions options,
                                std::function<void(Decision)> done) {
  const auto call = take_name(options);
  impl_->check_request_async(request, options, std::move(done), call);
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

namespace {

// An answer that comes in another thread, awaited. It comes within the store's deadline.
template <class T>
T awaited(const std::function<void(std::function<void(T)>)>& start) {
  auto promise = std::make_shared<std::promise<T>>();
  std::future<T> answer = promise->get_future();
  start([promise](T value) { promise->set_value(std::move(value)); });
  return answer.get();
}

}  // namespace

LeaseAnswer Guard::Impl::lease_now(const LimitOf& of, const LeaseRequest& request) {
  if (!of.shared) return of.limit->all.lease(of.counter.key, request);
  // In the store's own thread nobody would answer.
  if (shared_->in_its_thread()) return of.shared->lease_without(of.counter, request);
  return awaited<LeaseAnswer>(
      [&](auto done) { of.shared->lease(of.counter, request, std::move(done)); });
}

Result<Slot> Guard::acquire(std::string_view name, std::span<const Descriptor> descriptors,
                            AcquireOptions options) {
  auto found = impl_->limit_of(name, descriptors);
  if (!found) return found.error();
  KeyedConcurrency& all = found->limit->all;
  if (!found->shared && options.patience <= Nanos::zero())
    return all.try_acquire(found->counter.key, options.weight);
  if (!found->shared) return all.acquire(found->counter.key, options.weight, options.patience);

  LeaseAnswer answer;
  if (impl_->shared()->in_its_thread()) {
    answer = found->shared->lease_without(found->counter, {.id = {}, .weight = options.weight});
  } else {
    answer = awaited<LeaseAnswer>([&](auto done) {
      found->shared->acquire(found->counter, options.weight, options.patience, std::move(done));
    });
  }
  if (answer) return found->shared->slot(found->counter, *answer.lease);
  return guard::SharedLimit::no_slot(answer.refusal);
}

Result<LeaseAnswer> Guard::lease(std::string_view name, std::span<const Descriptor> descriptors,
                                 const LeaseRequest& request) {
  auto found = impl_->limit_of(name, descriptors);
  if (!found) return found.error();
  return impl_->lease_now(*found, request);
}

Result<LeaseAnswer> Guard::renew_lease(std::string_view name,
                                       std::span<const Descriptor> descriptors,
                                       std::string_view id) {
  auto found = impl_->limit_of(name, descriptors);
  if (!found) return found.error();
  if (!found->shared) return found->limit->all.renew(found->counter.key, id);
  if (impl_->shared()->in_its_thread()) return found->shared->renew_without(found->counter, id);
  return awaited<LeaseAnswer>(
      [&](auto done) { found->shared->renew(found->counter, id, std::move(done)); });
}

Result<bool> Guard::release_lease(std::string_view name, std::span<const Descriptor> descriptors,
                                  std::string_view id) {
  auto found = impl_->limit_of(name, descriptors);
  if (!found) return found.error();
  if (!found->shared) return found->limit->all.release(found->counter.key, id);
  if (impl_->shared()->in_its_thread()) return found->shared->release_without(found->counter, id);
  return awaited<Result<bool>>(
      [&](auto done) { found->shared->release(found->counter, id, std::move(done)); });
}

void Guard::lease_async(std::string_view name, std::span<const Descriptor> descriptors,
                        const LeaseRequest& request,
                        std::function<void(Result<LeaseAnswer>)> done) {
  auto found = impl_->limit_of(name, descriptors);
  if (!found) return done(found.error());
  if (!found->shared) return done(found->limit->all.lease(found->counter.key, request));
  found->shared->lease(found->counter, request, std::move(done));
}

void Guard::renew_lease_async(std::string_view name, std::span<const Descriptor> descriptors,
                              std::string_view id, std::function<void(Result<LeaseAnswer>)> done) {
  auto found = impl_->limit_of(name, descriptors);
  if (!found) return done(found.error());
  if (!found->shared) return done(found->limit->all.renew(found->counter.key, id));
  found->shared->renew(found->counter, id, std::move(done));
}

void Guard::release_lease_async(std::string_view name, std::span<const Descriptor> descriptors,
                                std::string_view id, std::function<void(Result<bool>)> done) {
  auto found = impl_->limit_of(name, descriptors);
  if (!found) return done(found.error());
  if (!found->shared) return done(found->limit->all.release(found->counter.key, id));
  found->shared->release(found->counter, id, std::move(done));
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
