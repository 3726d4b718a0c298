#include "sim/worker.h"

#include <array>
#include <cstdlib>
#include <utility>

#include "guard/descriptor_values.h"

namespace weir::sim {

SimStore::SimStore(const policy::StoreSpec& spec, testing::SimLoop& loop, Clock& clock,
                   testing::SimRedis& server, testing::SimLink& link, std::uint64_t seed)
    : loop_(loop),
      wire_(loop, server, link),
      driver_(guard::ShardDriver::Options::of(spec, seed),
              store::redis::KeySpace::make(spec.prefix, spec.prefix).value(), wire_, clock, nullptr,
              *this) {
  driver_.start();
}

SimStore::~SimStore() {
  take_in();
  driver_.stop();
}

void SimStore::decide(guard::SharedAsk& ask) noexcept {
  if (!driver_.begin(ask)) return;
  intake_.push_back(&ask);
  if (intake_.size() > 1) return;
  loop_.after(Nanos{0}, [this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) take_in();
  });
}

void SimStore::take_in() {
  for (guard::SharedAsk* ask : std::exchange(intake_, {})) driver_.send(*ask);
}

void SimStore::wake_at(MonoTime when) {
  loop_.at(when, [this, number = ++wake_, alive = std::weak_ptr(alive_)] {
    if (!alive.expired() && number == wake_) driver_.on_wake();
  });
}

Worker::Worker(const Policy& policy, Place place, testing::SimLoop& loop, testing::SimRedis& server,
               testing::SimLink& link, Nanos wall_ahead, std::uint64_t seed)
    : clock_(loop, wall_ahead), guard_(policy, {.clock = &clock_}, {.local = {}, .shared = true}) {
  auto store = std::make_unique<SimStore>(policy.model().store, loop, clock_, server, link, seed);
  driver_ = &store->driver();
  driver_->divide(ladder::Division::fixed(place.of, place.index));
  guard_.share(std::move(store));
}

void Worker::check(std::string_view route, std::string_view user, CheckOptions options,
                   std::function<void(Decision)> done) {
  const std::array<Descriptor, 1> descriptors{Descriptor{"user", user}};
  guard_.check_async(route, guard::DescriptorValues(descriptors), options, std::move(done));
}

void Worker::reload(const Policy& policy) {
  if (!guard_.reload(policy)) std::abort();
}

}  // namespace weir::sim
