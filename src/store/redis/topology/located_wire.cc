#include "store/redis/topology/located_wire.h"

#include <utility>

namespace weir::store::redis {

LocatedWire::LocatedWire(Endpoint endpoint, Locator& locator, AimedWire& wire)
    : endpoint_(std::move(endpoint)), locator_(locator), wire_(wire) {
  locator_.bind(this);
}

LocatedWire::~LocatedWire() {
  locator_.bind(nullptr);
}

void LocatedWire::bind(Events* events) {
  events_ = events;
  wire_.bind(events);
}

void LocatedWire::open() {
  wire_.close();
  locator_.locate();
}

void LocatedWire::close() {
  locator_.forget();
  wire_.close();
}

void LocatedWire::on_located(const HostPort& where) {
  Endpoint endpoint = endpoint_;
  endpoint.host = where.host;
  endpoint.port = where.port;
  if (endpoint.tls && endpoint.tls->server_name.empty()) endpoint.tls->server_name = where.host;
  wire_.aim(std::move(endpoint));
  wire_.open();
}

void LocatedWire::on_not_located(LocalFault why, const std::string& text) {
  if (events_ != nullptr) events_->on_closed(why, text);
}

void LocatedWire::on_moved() {
  if (events_ != nullptr) events_->on_elsewhere();
}

}  // namespace weir::store::redis
