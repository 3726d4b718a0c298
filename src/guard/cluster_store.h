#pragma once

#include <memory>

#include "guard/shared_store.h"

namespace weir::guard {

// A shared store on a Redis Cluster: one thread, which speaks to every master over a connection of
// its own, each with its breaker, its part of the fleet and what is known of its counters. One
// master that is away degrades its own keys only.
//
// Requires:    the policy's store is a cluster, and SharedStore::check() has passed it.
// Errors:      as SharedStore::open().
Result<std::unique_ptr<SharedStore>> open_cluster(const policy::Model& model, Clock& clock,
                                                  render::Metrics& metrics, Observer* observer,
                                                  FleetRole role);

}  // namespace weir::guard
