#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "breaker/concurrency_core.h"
#include "weir/concurrency.h"

namespace weir {

struct KeyedConcurrency::Keys {
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view key) const noexcept {
      return std::hash<std::string_view>{}(key);
    }
  };
  using Core = std::shared_ptr<ConcurrencyCore>;

  // The limit of a key, made where there is none; null where there is no room for one more.
  Core of(std::string_view key) {
    std::lock_guard lock(mutex);
    if (!forgotten.empty() && !forgotten.back()->sweep()) forgotten.pop_back();
    const auto found = cores.find(key);
    if (found != cores.end()) return found->second;
    if (cores.size() >= most)
      sweep_some_locked();
    else if (cores.size() >= next_sweep)
      sweep_locked();
    if (cores.size() >= most) {
      ++refused;
      return nullptr;
    }
    Core core = std::make_shared<ConcurrencyCore>(name, config, *clock, fence);
    cores.emplace(std::string(key), core);
    return core;
  }
  Core find(std::string_view key) {
    std::lock_guard lock(mutex);
    const auto found = cores.find(key);
    return found == cores.end() ? nullptr : found->second;
  }
  using At = std::unordered_map<std::string, Core, Hash, std::equal_to<>>::iterator;

  // Forgets a key that holds nothing; the one behind it. Whoever holds something has its core, or
  // the key's units are taken: what nobody else points to and is idle is nobody's.
  At forget_idle_locked(At at) {
    if (at->second.use_count() != 1 || !at->second->idle()) return std::next(at);
    const ConcurrencySnapshot last = at->second->numbers();
    given += last.leases_given;
    expired += last.leases_expired + last.leases;
    refused += last.refused;
    fence = std::max(fence, at->second->fence());
    if (last.leases > 0) forgotten.push_back(std::move(at->second));
    return cores.erase(at);
  }
  void sweep_locked() {
    for (auto at = cores.begin(); at != cores.end();) at = forget_idle_locked(at);
    // Half as many again may come before it is worth another look.
    next_sweep = std::min(most, std::max<std::size_t>(1'024, cores.size() + cores.size() / 2));
  }
  // A few of them, the next ones the next time: every new key comes here once there is no room, and
  // new keys are cheap to send. Going round by buckets, which stay where they are.
  void sweep_some_locked() {
    const std::size_t buckets = cores.bucket_count();
    std::size_t looked = 0;
    for (std::size_t i = 0; i < buckets && looked < kLooks && cores.size() >= most; ++i) {
      hand = (hand + 1) % buckets;
      std::vector<std::string_view> keys;
      for (auto at = cores.begin(hand); at != cores.end(hand); ++at) keys.push_back(at->first);
      looked += std::max<std::size_t>(keys.size(), 1);
      for (const std::string_view key : keys) (void)forget_idle_locked(cores.find(key));
    }
  }

  static constexpr std::size_t kLooks = 256;

  std::string name;
  ConcurrencyConfig config;
  Clock* clock = nullptr;
  std::size_t most = kMostKeys;
  std::size_t next_sweep = 1'024;
  std::size_t hand = 0;  // the bucket that was looked at last
  mutable std::mutex mutex;
  std::unordered_map<std::string, Core, Hash, std::equal_to<>> cores;
  // Of keys that went with leases that are over: those are many, perhaps, and end a few at a time.
  std::vector<Core> forgotten;
  std::uint64_t given = 0;  // by keys that were forgotten, as the others
  std::uint64_t expired = 0;
  std::uint64_t refused = 0;
  std::uint64_t fence = 0;  // the largest that one of them gave
};

KeyedConcurrency::KeyedConcurrency(std::unique_ptr<Keys> keys) noexcept : keys_(std::move(keys)) {}
KeyedConcurrency::KeyedConcurrency(KeyedConcurrency&&) noexcept = default;
KeyedConcurrency& KeyedConcurrency::operator=(KeyedConcurrency&&) noexcept = default;
KeyedConcurrency::~KeyedConcurrency() = default;

Result<KeyedConcurrency> KeyedConcurrency::make(std::string name, const ConcurrencyConfig& config,
                                                Clock* clock, std::size_t most_keys) {
  // The check, and its words, are those of one limit.
  if (const Result<Concurrency> sound = Concurrency::make(name, config, clock); !sound)
    return sound.error();
  auto keys = std::make_unique<Keys>();
  keys->name = std::move(name);
  keys->config = config;
  keys->clock = clock != nullptr ? clock : &Clock::real();
  keys->most = most_keys;
  keys->next_sweep = std::min<std::size_t>(most_keys, 1'024);
  return KeyedConcurrency(std::move(keys));
}

Slot KeyedConcurrency::try_acquire(std::string_view key, std::uint32_t weight) {
  const Keys::Core core = keys_->of(key);
  if (!core) return Slot(LeaseRefusal::too_many_keys);
  Slot slot = Concurrency(core).try_acquire(weight);
  slot.keep_ = core;
  return slot;
}

Slot KeyedConcurrency::acquire(std::string_view key, std::uint32_t weight, Nanos patience) {
  const Keys::Core core = keys_->of(key);
  if (!core) return Slot(LeaseRefusal::too_many_keys);
  Slot slot = Concurrency(core).acquire(weight, patience);
  slot.keep_ = core;
  return slot;
}

LeaseAnswer KeyedConcurrency::lease(std::string_view key, const LeaseRequest& request) {
  const Keys::Core core = keys_->of(key);
  if (!core) return {.refusal = LeaseRefusal::too_many_keys};
  return core->lease(request);
}

LeaseAnswer KeyedConcurrency::renew(std::string_view key, std::string_view id) {
  const Keys::Core core = keys_->find(key);
  if (!core) return {.refusal = LeaseRefusal::gone};
  return core->renew(id);
}

bool KeyedConcurrency::release(std::string_view key, std::string_view id) {
  const Keys::Core core = keys_->find(key);
  return core && core->release(id);
}

Result<void> KeyedConcurrency::configure(const ConcurrencyConfig& config) {
  if (const Result<Concurrency> sound = Concurrency::make(keys_->name, config, keys_->clock);
      !sound)
    return sound.error();
  std::lock_guard lock(keys_->mutex);
  keys_->config = config;
  for (const auto& [key, core] : keys_->cores) core->configure(config);
  return {};
}

ConcurrencyConfig KeyedConcurrency::config() const {
  std::lock_guard lock(keys_->mutex);
  return keys_->config;
}

ConcurrencySnapshot KeyedConcurrency::snapshot() const {
  // What is over ends outside the lock that every call takes. A key that is idle may be forgotten
  // meanwhile: it is not held on to.
  std::vector<std::weak_ptr<ConcurrencyCore>> all;
  std::vector<Keys::Core> forgotten;
  {
    std::lock_guard lock(keys_->mutex);
    forgotten.swap(keys_->forgotten);
    all.reserve(keys_->cores.size());
    for (const auto& [key, core] : keys_->cores) all.push_back(core);
  }
  forgotten.clear();
  for (const auto& each : all) {
    if (const Keys::Core core = each.lock()) {
      while (core->sweep()) {
      }
    }
  }
  std::lock_guard lock(keys_->mutex);
  ConcurrencySnapshot sum{.name = keys_->name,
                          .limit = keys_->config.limit,
                          .leases_given = keys_->given,
                          .leases_expired = keys_->expired,
                          .refused = keys_->refused};
  for (const auto& [key, core] : keys_->cores) {
    const ConcurrencySnapshot one = core->numbers();
    sum.held += one.held;
    sum.leases += one.leases;
    sum.waiting += one.waiting;
    sum.leases_given += one.leases_given;
    sum.leases_expired += one.leases_expired;
    sum.refused += one.refused;
  }
  return sum;
}

std::size_t KeyedConcurrency::keys() const {
  std::lock_guard lock(keys_->mutex);
  return keys_->cores.size();
}

}  // namespace weir
