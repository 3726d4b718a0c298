#include "policy/store_change.h"

#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

namespace weir::policy {
namespace {

std::vector<std::string> those_of(std::initializer_list<std::pair<std::string_view, bool>> fields) {
  std::vector<std::string> out;
  for (const auto& [field, same] : fields)
    if (!same) out.emplace_back(field);
  return out;
}

bool same_tls(const std::optional<StoreSpec::Tls>& a, const std::optional<StoreSpec::Tls>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  const auto& [ca, cert, key, server_name] = *a;
  return ca == b->ca && cert == b->cert && key == b->key && server_name == b->server_name;
}

}  // namespace

std::vector<std::string> changed_fields(const StoreSpec& before, const StoreSpec& after) {
  // Bound by place, so that a field that is added does not compile before it stands below.
  [[maybe_unused]] const auto& [url, fallback, deadline, deadline_text, connect_timeout, username,
                                password_file, prefix, client_clock, startup, tls, breaker,
                                recovery, workers, regions, known_keys, memory_keys] = before;
  const auto& [failures, slow_call, slow_rate, cooldown, max_cooldown, jitter] = breaker;
  const auto& [steps, step] = recovery;
  const auto& [of, index, name, state] = workers;
  return those_of({
      {"store.url", url == after.url},
      {"store.fallback", fallback == after.fallback_url},
      {"store.deadline", deadline == after.deadline},
      {"store.connect_timeout", connect_timeout == after.connect_timeout},
      {"store.username", username == after.username},
      {"store.password_file", password_file == after.password_file},
      {"store.tls", same_tls(tls, after.tls)},
      {"store.prefix", prefix == after.prefix},
      {"store.clock", client_clock == after.client_clock},
      {"store.startup", startup == after.startup},
      {"store.breaker.failures", failures == after.breaker.failures},
      {"store.breaker.slow_call", slow_call == after.breaker.slow_call},
      {"store.breaker.slow_rate", slow_rate == after.breaker.slow_rate},
      {"store.breaker.cooldown", cooldown == after.breaker.cooldown},
      {"store.breaker.max_cooldown", max_cooldown == after.breaker.max_cooldown},
      {"store.breaker.jitter", jitter == after.breaker.jitter},
      {"store.recovery.steps", steps == after.recovery.steps},
      {"store.recovery.step", step == after.recovery.step},
      {"store.workers.of", of == after.workers.of},
      {"store.workers.index", index == after.workers.index},
      {"store.workers.name", name == after.workers.name},
      {"store.workers.state", state == after.workers.state},
      {"store.regions", regions == after.regions},
      {"store.known_keys", known_keys == after.known_keys},
      {"store.max_keys", memory_keys == after.memory_keys},
  });
}

}  // namespace weir::policy
