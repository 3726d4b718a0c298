#include "sim/worker.h"

#include <array>
#include <cstdlib>
#include <memory>
#include <utility>

#include "guard/descriptor_values.h"

namespace weir::sim {

Worker::Worker(const Policy& policy, const StoreSetup& setup, testing::SimLoop& loop,
               testing::SimProcess& process, Nanos wall_ahead)
    : clock_(loop, wall_ahead), guard_(policy, {.clock = &clock_}, {.local = {}, .shared = true}) {
  auto store = std::make_unique<SimStore>(setup, loop, process, clock_);
  store_ = store.get();
  guard_.share(std::move(store));
}

void Worker::meter(std::unique_ptr<SimUsage> usage, std::uint64_t process, bool remembers) {
  usage_ = std::move(usage);
  guard_.record_by(usage_->open(process, clock_, guard_.metrics()));
  if (remembers) guard_.resume_overspend();
  guard_.resume_reservations();
}

void Worker::check(std::string_view route, std::string_view user, CheckOptions options,
                   std::shared_ptr<guard::MeteredCall> call, std::function<void(Decision)> done) {
  const std::array<Descriptor, 1> descriptors{Descriptor{"user", user}};
  guard_.check_async(route, guard::DescriptorValues(descriptors), options, std::move(done),
                     std::move(call));
}

void Worker::reload(const Policy& policy) {
  // Calls that are under way end in this thread, later: to wait for them is in vain.
  if (!guard_.reload(policy, Nanos{0})) std::abort();
}

std::vector<Target> Worker::targets(std::string_view route, std::string_view user) {
  const std::array<Descriptor, 1> descriptors{Descriptor{"user", user}};
  const auto policy = guard_.policy();
  guard::Plan plan;
  (void)plan.make(*policy->find(route), *policy, guard::DescriptorValues(descriptors), 1,
                  guard_.hasher(), guard_.digester());
  std::vector<Target> targets;
  for (const store::Counter& counter : plan.asked()) {
    targets.push_back({counter.digest, store_->shard_of(counter.key)});
  }
  return targets;
}

std::uint64_t Worker::unknown() {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < store_->shards(); ++i) {
    const auto& counters = store_->shard(i).driver().counters();
    sum += counters.unknown() + counters.not_given_back();
  }
  return sum;
}

std::uint64_t Worker::over_bound() {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < store_->shards(); ++i) {
    sum += store_->shard(i).driver().counters().over_bound();
  }
  return sum;
}

}  // namespace weir::sim
