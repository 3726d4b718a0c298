#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/breaker.h"
#include "weir/result.h"

namespace weir {

// Breakers by name: one dependency, one breaker, wherever in a program it is asked for.
//
// Guarantees:  a name is one breaker until it is removed. Names come from configuration, never from
//              a request: there are at most `most`.
// Threads:     any.
class BreakerRegistry {
 public:
  static constexpr std::size_t kMost = 10'000;

  // `options` are those of every breaker made here.
  explicit BreakerRegistry(BreakerOptions options = {}, std::size_t most = kMost);
  BreakerRegistry(const BreakerRegistry&) = delete;
  BreakerRegistry& operator=(const BreakerRegistry&) = delete;
  ~BreakerRegistry();

  // The breaker of that name; made with `config` where there is none yet, and else given these
  // numbers. A breaker whose window is another one is replaced, its mode taken over: who holds the
  // old one keeps it.
  //
  // Errors:      invalid_argument: the configuration; resource_exhausted: too many names.
  Result<Breaker> put(std::string_view name, const BreakerConfig& config);
  // Absent: no such name.
  std::optional<Breaker> find(std::string_view name) const;
  // Takes it off the list; who holds it keeps it.
  bool remove(std::string_view name);
  // By name.
  std::vector<Breaker> all() const;

 private:
  struct Names;
  std::unique_ptr<Names> names_;
};

}  // namespace weir
