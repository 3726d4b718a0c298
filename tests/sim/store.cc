#include "sim/store.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "guard/fallback_ask.h"
#include "store/redis/topology/key_slot.h"

namespace weir::sim {

using guard::ShardDriver;
using guard::SharedAsk;
using store::redis::KeySpace;
using store::redis::kSlots;

namespace {

// The seed of one of several things that must not run in step.
std::uint64_t seed_of(std::uint64_t seed, std::uint64_t which) {
  return testing::SimRandom(seed * 64 + which).next();
}

// The name of the shard that has a slot as its highest. Finding one is slow.
const std::string& shard_name(std::uint16_t slot) {
  static std::map<std::uint16_t, std::string> names;
  auto found = names.find(slot);
  if (found == names.end()) found = names.emplace(slot, store::redis::name_in_slot(slot)).first;
  return found->second;
}

// The canary: asks for one of several, and tells it to all.
class Echo final : public SharedAsk {
 public:
  explicit Echo(std::span<SharedAsk* const> of) : of_(of.begin(), of.end()) {
    request = of_.front()->request;
    answer_by = of_.front()->answer_by;
    loaded_at = of_.front()->loaded_at;
  }
  void decided(const ladder::LadderVerdict& verdict, Instant store_now) noexcept override {
    const std::unique_ptr<Echo> self(this);
    // The keys are the first one's.
    for (auto ask = of_.rbegin(); ask != of_.rend(); ++ask) {
      std::copy(findings().begin(), findings().end(), (*ask)->findings().begin());
      (*ask)->decided(verdict, store_now);
    }
  }

 private:
  std::vector<SharedAsk*> of_;
};

}  // namespace

std::size_t shard_of_slot(std::uint16_t slot, std::size_t shards) {
  return slot * shards / kSlots;
}

std::uint16_t highest_slot(std::size_t shard, std::size_t shards) {
  return static_cast<std::uint16_t>(((shard + 1) * kSlots + shards - 1) / shards - 1);
}

// ---- One shard
// ------------------------------------------------------------------------------------

SimShard::SimShard(ShardDriver::Options options, const policy::StoreSpec& spec,
                   testing::SimLoop& loop, testing::SimProcess& process, Clock& clock, Way way,
                   Folder* folder)
    : process_(process),
      wire_(loop, *way.server, *way.link, &process),
      folder_(folder),
      driver_(std::move(options), KeySpace::make(spec.prefix, spec.prefix).value(), wire_, clock,
              nullptr, *this) {}

void SimShard::turn_to(Way way) {
  wire_.turn_to(*way.server, *way.link);
  driver_.elsewhere();
}

void SimShard::wake_at(MonoTime when) {
  process_.at(when, [this, number = ++wake_, alive = std::weak_ptr(alive_)] {
    if (!alive.expired() && number == wake_) driver_.on_wake();
  });
}

// As guard/view_writer.h: of views that come faster than the disk takes them the last is written.
void SimShard::write_view(std::string text, std::uint64_t epoch) {
  if (folder_ == nullptr) return;
  next_view_ = View{std::move(text), epoch};
  if (!writing_) write_next();
}

void SimShard::write_next() {
  writing_ = next_view_.has_value();
  if (!writing_) return;
  process_.after(folder_->takes, [this, view = *std::exchange(next_view_, std::nullopt),
                                  alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    folder_->view = view.text;
    write_next();
    driver_.view_written(view.epoch, {});
  });
}

// ---- All of them
// -----------------------------------------------------------------------------------

SimStore::SimStore(const StoreSetup& setup, testing::SimLoop& loop, testing::SimProcess& process,
                   Clock& clock)
    : process_(process),
      clock_(clock),
      keys_(KeySpace::make(setup.spec.prefix, setup.spec.prefix).value()),
      deadline_(setup.fallback ? 2 * setup.spec.deadline : setup.spec.deadline),
      turn_(setup.turn),
      echoes_(setup.echoes) {
  const bool cluster = setup.shards.size() > 1;
  for (std::size_t i = 0; i < setup.shards.size(); ++i) {
    ShardDriver::Options options = ShardDriver::Options::of(setup.spec, seed_of(setup.seed, i));
    options.seat = setup.seat;
    options.client.session.cluster = cluster;
    Folder* const folder = setup.folders != nullptr ? &(*setup.folders)[i] : nullptr;
    auto shard = std::make_unique<SimShard>(std::move(options), setup.spec, loop, process, clock,
                                            setup.shards[i], folder);
    shard->another = [this](SharedAsk& ask) { return ask_fallback(ask); };
    ShardDriver& driver = shard->driver();
    if (cluster) driver.name_shard(shard_name(highest_slot(i, setup.shards.size())));
    if (setup.division) driver.divide(*setup.division);
    if (folder != nullptr && folder->view) {
      driver.start_from(ladder::MembershipView::parse(*folder->view).value());
    }
    shards_.push_back(std::move(shard));
  }
  if (setup.fallback) {
    fallback_ =
        std::make_unique<SimShard>(ShardDriver::Options::of(setup.spec, seed_of(setup.seed, 63)),
                                   setup.spec, loop, process, clock, *setup.fallback, nullptr);
  }
  for (const auto& shard : shards_) shard->driver().start();
  if (fallback_) fallback_->driver().start();
}

SimStore::~SimStore() {
  stop();
}

void SimStore::stop() {
  take_in();
  for (const auto& shard : shards_) shard->driver().stop();
  if (fallback_) {
    take_in();
    fallback_->driver().stop();
  }
  while (!intake_.empty()) take_in();
}

std::size_t SimStore::shard_of(std::string_view key) const {
  return shard_of_slot(keys_.slot(key), shards_.size());
}

std::vector<std::uint16_t> SimStore::slots_of(const ladder::LadderRequest& request) const {
  std::vector<std::uint16_t> slots;
  for (const store::Counter& counter : request.counters) slots.push_back(keys_.slot(counter.key));
  return slots;
}

void SimStore::decide(SharedAsk& ask) noexcept {
  const std::vector<std::uint16_t> slots = slots_of(ask.request);
  const bool one = std::all_of(slots.begin(), slots.end(), [&](auto s) { return s == slots[0]; });
  if (shards_.size() == 1 || one) {
    ShardDriver& driver = owner(slots[0]);
    if (!driver.begin(ask)) return;
    if (closed_) {
      driver.no_room(ask);
    } else {
      queue({&ask, &driver, nullptr});
    }
    return;
  }
  auto split = std::make_unique<guard::SplitAsk>(ask, slots, *this);
  if (split->begin()) queue({nullptr, nullptr, split.release()});
}

ladder::LadderVerdict SimStore::decide_without(const ladder::LadderRequest& request,
                                               std::span<store::Finding> findings) noexcept {
  return guard::split_without(request, slots_of(request), *this, findings);
}

ladder::LadderVerdict SimStore::not_recorded(const ladder::LadderRequest& request,
                                             std::span<store::Finding> findings,
                                             const ladder::LadderVerdict& served) noexcept {
  if (shards_.size() == 1) return shards_.front()->driver().not_recorded(request, findings, served);
  return guard::split_not_recorded(request, slots_of(request), *this, findings, served);
}

bool SimStore::answering() const noexcept {
  return std::all_of(shards_.begin(), shards_.end(), [](const auto& shard) {
    return shard->driver().ladder().breaker().state() != breaker::ProbeState::open;
  });
}

bool SimStore::connected() const {
  return std::all_of(shards_.begin(), shards_.end(),
                     [](const auto& shard) { return shard->driver().connection().up; });
}

void SimStore::leave(std::function<void()> done) {
  auto leaving = std::make_shared<std::size_t>(1);
  const auto one_left = [leaving, done = std::move(done)] {
    if (--*leaving == 0) done();
  };
  for (const auto& shard : shards_) {
    if (shard->driver().leave([this, one_left] { process_.after(Nanos{0}, one_left); })) ++*leaving;
  }
  process_.after(Nanos{0}, one_left);
}

bool SimStore::ask_fallback(SharedAsk& ask) noexcept {
  if (!fallback_ || !guard::may_fall_back(ask, clock_.mono())) return false;
  ShardDriver& driver = fallback_->driver();
  auto* const second = new guard::FallbackAsk(
      ask, [this](SharedAsk& of) { shards_.front()->driver().decide_without(of); },
      [](SharedAsk&, bool) {});
  if (driver.begin(*second)) queue({second, &driver, nullptr});
  return true;
}

void SimStore::queue(const Queued& queued) {
  intake_.push_back(queued);
  if (intake_.size() > 1) return;
  process_.after(turn_, [this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) take_in();
  });
}

void SimStore::take_in() {
  std::vector<guard::SplitAsk::Sending> sending;
  for (const Queued& queued : std::exchange(intake_, {})) {
    if (queued.split != nullptr) {
      queued.split->send(sending);
    } else {
      sending.push_back({queued.ask, queued.driver});
    }
  }
  // Asks of one shard, in their order, so that those alike meet.
  for (std::size_t i = 0; i < sending.size(); ++i) {
    ShardDriver* const shard = sending[i].shard;
    if (shard == nullptr) continue;
    std::vector<SharedAsk*> together;
    for (std::size_t j = i; j < sending.size(); ++j) {
      if (sending[j].shard != shard) continue;
      together.push_back(sending[j].ask);
      sending[j].shard = nullptr;
    }
    send_together(*shard, together);
  }
}

void SimStore::send_together(ShardDriver& shard, std::span<SharedAsk* const> asks) {
  if (!echoes_) {
    shard.send_together(asks);
    return;
  }
  coalescer_.gather(asks, clock_.mono(), [&](std::span<SharedAsk* const> alike) {
    if (alike.size() > 1) {
      shard.send(*new Echo(alike));
    } else {
      shard.send(*alike.front());
    }
  });
}

}  // namespace weir::sim
