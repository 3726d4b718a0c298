#pragma once

#include <cstdint>

#include "policy/model.h"
#include "store/redis/physical_key.h"

namespace weir::drill {

// Which of the clients' counters lie on the first master of a drill's cluster, which the faults
// strike, and which on the others, which they must not touch.
class Placement {
 public:
  // Requires:    `model` outlives this; its store has a prefix that keys may have.
  Placement(const policy::Model& model, std::uint32_t shards);

  // Whether the counter of this rule for that client is on the first master.
  bool is_struck(const policy::Rule& rule, std::uint32_t client) const;
  // Whether one of the route's is: then the whole request is decided without the store.
  bool is_struck(const policy::Route& route, std::uint32_t client) const;

 private:
  const policy::Model& model_;
  const std::uint32_t shards_;
  const store::redis::KeySpace keys_;
};

}  // namespace weir::drill
