#pragma once

#include <optional>

#include "store/redis/topology/locator.h"
#include "store/redis/wire.h"

namespace weir::store::redis {

// A wire to whatever server a locator names at each opening.
//
// Threads:     the loop's alone.
class LocatedWire final : public Wire, private Locator::Listener {
 public:
  // `endpoint` says how the server is spoken to; host and port are the locator's to say.
  LocatedWire(Endpoint endpoint, Locator& locator, AimedWire& wire);
  ~LocatedWire() override;
  LocatedWire(const LocatedWire&) = delete;
  LocatedWire& operator=(const LocatedWire&) = delete;

  void bind(Events* events) override;
  void open() override;
  void close() override;
  void send(std::string& bytes) override { wire_.send(bytes); }
  void flush_soon() override { wire_.flush_soon(); }
  void wake_at(MonoTime when) override { wire_.wake_at(when); }

 private:
  void on_located(const HostPort& where) override;
  void on_not_located(LocalFault why, const std::string& text) override;
  void on_moved() override;

  const Endpoint endpoint_;
  Locator& locator_;
  AimedWire& wire_;
  Events* events_ = nullptr;
};

}  // namespace weir::store::redis
