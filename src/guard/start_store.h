#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "guard/shared_store.h"
#include "policy/model.h"
#include "policy/store_url.h"
#include "weir/observer.h"
#include "weir/result.h"

namespace weir::guard {

// Starts a store and waits for it, at most so long. One that does not answer fails the start where
// the policy says so; else it goes on without, and says so.
template <class Store>
Result<std::unique_ptr<SharedStore>> started(std::unique_ptr<Store> store,
                                             const policy::StoreSpec& spec, Nanos patience,
                                             Observer* observer) {
  store->start();
  const std::optional<std::string> trouble = store->wait_ready(patience);
  if (trouble) {
    if (spec.startup == policy::Startup::require) {
      return Error{ErrorCode::unavailable, "store: " + policy::redacted(spec.url) + ": " +
                                               *trouble + " (startup: require)"};
    }
    if (observer != nullptr)
      observer->on_store_event({.kind = StoreEvent::Kind::away_at_start, .why = *trouble});
    store->started_without();
  }
  return std::unique_ptr<SharedStore>(std::move(store));
}

}  // namespace weir::guard
