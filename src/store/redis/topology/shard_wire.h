#pragma once

#include <memory>
#include <string>

#include "store/redis/asio_wire.h"
#include "store/redis/wire.h"

namespace boost::asio {
class io_context;
}

namespace weir::store::redis {

// A wire to one master of a cluster, once it is known which one: until then, and when there is none
// any more, every attempt at it ends at once.
//
// Threads:     the loop's alone.
class ShardWire final : public AimedWire {
 public:
  explicit ShardWire(boost::asio::io_context& io);
  ~ShardWire() override;
  ShardWire(const ShardWire&) = delete;
  ShardWire& operator=(const ShardWire&) = delete;

  // Without a host: at nobody.
  void aim(Endpoint endpoint) override;
  // What attempts at nobody end with.
  void explain(LocalFault why, std::string text);

  void bind(Events* events) override;
  void open() override;
  void close() override;
  void send(std::string& bytes) override { wire_.send(bytes); }
  void flush_soon() override { wire_.flush_soon(); }
  void wake_at(MonoTime when) override { wire_.wake_at(when); }
  std::optional<Endpoint> where() const override { return aimed_ ? wire_.where() : std::nullopt; }

 private:
  boost::asio::io_context& io_;
  AsioWire wire_;
  Events* events_ = nullptr;
  bool aimed_ = false;
  LocalFault why_ = LocalFault::no_master;
  std::string text_;
  std::shared_ptr<ShardWire*> attempt_;  // at nobody; what it points to ends with it
};

}  // namespace weir::store::redis
