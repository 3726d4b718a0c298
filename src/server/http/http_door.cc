#include "server/http/http_door.h"

#include "server/http/connection.h"
#include "server/lane.h"

namespace weir::server::http {

HttpDoor::HttpDoor(std::unique_ptr<Handler> handler, render::Metrics* metrics, Bounds bounds)
    : context_(std::make_shared<HttpContext>()) {
  context_->bounds = bounds;
  context_->handler = std::move(handler);
  context_->metrics = metrics;
}

void HttpDoor::open(Lane& lane, std::unique_ptr<Stream> stream) {
  auto connection = std::make_unique<HttpConnection>(lane, std::move(stream), context_);
  HttpConnection& kept = *connection;
  lane.adopt(std::move(connection));
  kept.start();
}

void HttpDoor::turn_away(Lane& lane, std::unique_ptr<Stream> stream) {
  context_->count(render::HttpBound::connections);
  std::string out;
  ResponseWriter(out, {.keep_alive = false}, context_->date.at(lane.clock().now()))
      .problem(503, "The server holds as many connections as it may.", "Retry-After: 1\r\n");
  stream->write_some(out);
}

}  // namespace weir::server::http
