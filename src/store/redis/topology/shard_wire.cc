#include "store/redis/topology/shard_wire.h"

#include <utility>

// Boost 1.74 needs <utility> before its headers.
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

namespace weir::store::redis {

ShardWire::ShardWire(boost::asio::io_context& io) : io_(io), wire_(io, Endpoint{}) {}
ShardWire::~ShardWire() = default;

void ShardWire::aim(Endpoint endpoint) {
  aimed_ = !endpoint.host.empty();
  if (aimed_) wire_.aim(std::move(endpoint));
}

void ShardWire::explain(LocalFault why, std::string text) {
  why_ = why;
  text_ = std::move(text);
}

void ShardWire::bind(Events* events) {
  events_ = events;
  wire_.bind(events);
}

void ShardWire::open() {
  close();
  if (aimed_) {
    wire_.open();
    return;
  }
  attempt_ = std::make_shared<ShardWire*>(this);
  boost::asio::post(io_, [attempt = std::weak_ptr<ShardWire*>(attempt_)] {
    const auto of = attempt.lock();
    if (!of) return;
    ShardWire& wire = **of;
    wire.attempt_.reset();
    if (wire.events_ != nullptr) wire.events_->on_closed(wire.why_, wire.text_);
  });
}

void ShardWire::close() {
  attempt_.reset();
  wire_.close();
}

}  // namespace weir::store::redis
