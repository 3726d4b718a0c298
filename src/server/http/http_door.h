#pragma once

#include <memory>
#include <string>

#include "render/metrics.h"
#include "server/door.h"
#include "server/http/bounds.h"
#include "server/http/framing.h"
#include "server/http/handler.h"

namespace weir::server::http {

// What all connections of one lane's door share.
struct HttpContext {
  Bounds bounds;
  std::unique_ptr<Handler> handler;
  render::Metrics* metrics = nullptr;  // may be absent
  HttpDate date;

  void count(render::HttpBound bound) {
    if (metrics != nullptr) metrics->count_http_rejection(bound);
  }
};

// HTTP/1.1 and 1.0, with keep-alive and pipelining: answers a whole read with one write.
class HttpDoor final : public Door {
 public:
  explicit HttpDoor(std::unique_ptr<Handler> handler, render::Metrics* metrics = nullptr,
                    Bounds bounds = {});

  void open(Lane& lane, std::unique_ptr<Stream> stream) override;
  // 503 with Retry-After, as far as it can be sent at once.
  void turn_away(Lane& lane, std::unique_ptr<Stream> stream) override;

 private:
  std::shared_ptr<HttpContext> context_;  // connections outlive the door while draining
};

}  // namespace weir::server::http
