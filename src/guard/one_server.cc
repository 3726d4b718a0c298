#include "guard/one_server.h"

#include <utility>

#include "base/random.h"
#include "guard/openable.h"
#include "guard/seat_options.h"
#include "guard/start_store.h"
#include "policy/envoy/name_trial.h"
#include "store/redis/store_address.h"
#include "store/redis/topology/server_wire.h"

namespace weir::guard {

namespace redis = store::redis;

namespace {

Result<Server> server_of(const policy::Model& model, const policy::StoreSpec& spec,
                         FleetRole role) {
  const policy::StoreUrl url = policy::parse_store_url(spec.url).value();
  auto keys = redis::KeySpace::make(spec.prefix, spec.prefix);
  if (!keys) return keys.error();
  // Files that cannot be used are no fault of the store's, and are said at once.
  if (auto usable = redis::check_files(spec, url); !usable) return usable.error();
  ShardDriver::Options options = ShardDriver::Options::of(spec, random_number());
  options.client.session.database = url.database;
  options.client.session.names = policy::name_trials(model);
  options.client.credentials = redis::credentials_of(spec, url);
  options.seat = seat_options(model, role, random_number());
  return Server{spec, url, std::move(options), std::move(*keys)};
}

}  // namespace

Result<Server> Server::first_of(const policy::Model& model, FleetRole role) {
  return server_of(model, model.store, role);
}

Result<Server> Server::fallback_of(const policy::Model& model) {
  return server_of(model, fallback_spec(model.store), FleetRole::guest);
}

}  // namespace weir::guard
