#pragma once

#include <functional>
#include <memory>
#include <string>

#include "store/redis/wire.h"

namespace boost::asio {
class io_context;
}

namespace weir::store::redis {

// A Wire on an Asio event loop that one thread runs: TCP or a Unix socket.
//
// Errors:      every error of a socket is an on_closed() with its LocalFault.
// Threads:     the loop's alone.
class AsioWire final : public AimedWire {
 public:
  // Says what address a host has now, asked at every open(); what is no address goes to the
  // system's resolver.
  using Lookup = std::function<std::string(const std::string& host)>;

  AsioWire(boost::asio::io_context& io, Endpoint endpoint, Lookup lookup = {});
  ~AsioWire() override;
  AsioWire(const AsioWire&) = delete;
  AsioWire& operator=(const AsioWire&) = delete;

  void aim(Endpoint endpoint) override;
  void bind(Events* events) override;
  void open() override;
  void close() override;
  void send(std::string& bytes) override;
  void flush_soon() override;
  void wake_at(MonoTime when) override;
  std::optional<Endpoint> where() const override;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace weir::store::redis
