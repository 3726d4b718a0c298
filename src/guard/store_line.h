#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "store/redis/store_call.h"
#include "store/redis/wire.h"
#include "weir/clock.h"

namespace weir::guard {

// The way to the store for what stands there beside the limits: breakers and leases that a fleet
// shares. The same connection as the asks', and the same thread.
class StoreLine {
 public:
  virtual ~StoreLine() = default;

  // ---- The loop's alone.

  // Whether a connection stands to whom this slot of a cluster belongs.
  virtual bool up(std::uint16_t slot) const = 0;
  // Where that connection goes, for another one there; absent: nobody can say.
  virtual std::optional<store::redis::Endpoint> where(std::uint16_t slot) const {
    (void)slot;
    return std::nullopt;
  }
  // See CallHandler; it may be called from inside.
  virtual void call(std::uint16_t slot, store::redis::StoreCall call, Nanos within,
                    store::redis::CallHandler handler) = 0;

  // ---- From any thread.

  // Whether the store that has this slot is worth asking: a connection stands, and its breaker is
  // not open.
  virtual bool answering(std::uint16_t slot) const noexcept = 0;
  // Runs it in the loop's thread, not from inside; never once the loop has ended.
  virtual void post(std::function<void()> what) = 0;
  virtual bool in_loop() const noexcept = 0;
};

}  // namespace weir::guard
