#include "weir/breaker_registry.h"

#include <functional>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "breaker/breaker_core.h"

namespace weir {

struct BreakerRegistry::Names {
  BreakerOptions options;
  std::size_t most;
  mutable std::shared_mutex mutex;
  std::map<std::string, Breaker, std::less<>> breakers;

  // What an operator ordered is no matter of windows, and stands as it stood. It is taken along
  // under the lock: between that and the swap nobody finds the old one, and gives it an order that
  // is lost. Nobody hears of one that cannot be found yet.
  bool take_place(std::string_view name, const Breaker& old, const Breaker& made) {
    const breaker::HoldEvents hold;
    std::unique_lock lock(mutex);
    const auto found = breakers.find(name);
    // Another one by now, or none: what holds of that one is to be looked at anew.
    if (found == breakers.end() || !(found->second == old)) return false;
    BreakerCore::of(made)->take_orders_of(*BreakerCore::of(old));
    found->second = made;
    return true;
  }
};

BreakerRegistry::BreakerRegistry(BreakerOptions options, std::size_t most)
    : names_(std::make_unique<Names>()) {
  names_->options = std::move(options);
  names_->most = most;
}

BreakerRegistry::~BreakerRegistry() = default;

Result<Breaker> BreakerRegistry::put(std::string_view name, const BreakerConfig& config) {
  for (;;) {
    const std::optional<Breaker> old = find(name);
    if (!old) {
      std::unique_lock lock(names_->mutex);
      if (names_->breakers.contains(name)) continue;
      if (names_->breakers.size() >= names_->most) {
        return Error{ErrorCode::resource_exhausted,
                     "breaker " + std::string(name) + ": there are " +
                         std::to_string(names_->most) + " breakers already, which is the most"};
      }
      Result<Breaker> made = Breaker::make(std::string(name), config, names_->options);
      if (made) names_->breakers.emplace(std::string(name), *made);
      return made;
    }
    // Whoever hears of what changes may look for breakers: they are told outside the lock.
    Breaker changing = *old;
    if (changing.config() == config) return changing;
    const Result<void> changed = changing.configure(config);
    if (changed.has_value()) return changing;
    if (changed.error().code == ErrorCode::invalid_argument) return changed.error();
    Result<Breaker> made = Breaker::make(std::string(name), config, names_->options);
    if (!made) return made;
    if (!names_->take_place(name, changing, *made)) continue;
    BreakerCore::of(changing)->deliver();
    BreakerCore::of(*made)->deliver();
    return made;
  }
}

std::optional<Breaker> BreakerRegistry::find(std::string_view name) const {
  std::shared_lock lock(names_->mutex);
  const auto found = names_->breakers.find(name);
  if (found == names_->breakers.end()) return std::nullopt;
  return found->second;
}

bool BreakerRegistry::remove(std::string_view name) {
  std::unique_lock lock(names_->mutex);
  const auto found = names_->breakers.find(name);
  if (found == names_->breakers.end()) return false;
  names_->breakers.erase(found);
  return true;
}

std::vector<Breaker> BreakerRegistry::all() const {
  std::shared_lock lock(names_->mutex);
  std::vector<Breaker> list;
  list.reserve(names_->breakers.size());
  for (const auto& [name, breaker] : names_->breakers) list.push_back(breaker);
  return list;
}

}  // namespace weir
