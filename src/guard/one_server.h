#pragma once

#include <string>

#include "guard/shard_driver.h"
#include "policy/model.h"
#include "policy/store_url.h"
#include "store/redis/physical_key.h"
#include "weir/guard.h"
#include "weir/result.h"

namespace weir::guard {

// One server: where it is, and how it is asked.
struct Server {
  policy::StoreSpec spec;
  policy::StoreUrl url;
  ShardDriver::Options options;
  store::redis::KeySpace keys;

  // The store that the policy names.
  static Result<Server> first_of(const policy::Model& model, FleetRole role);
  // The one that is asked while that one cannot be. Its counts are whole: it has no fleet, and
  // nobody has a part of them.
  //
  // Requires:    the policy names one.
  static Result<Server> fallback_of(const policy::Model& model);
};

}  // namespace weir::guard
