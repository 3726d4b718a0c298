#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/http/handler.h"
#include "server/http/safeguard_body.h"
#include "weir/guard.h"
#include "weir/reservation.h"

namespace weir::server {
class Lane;
}

namespace weir::server::http {

// Work whose cost is known only afterwards, for callers in other languages:
//   POST /v1/reserve     {"route": "chat", "descriptors": {…}, "estimate": 800,
//                         "expire_ms": 600000, "on_expiry": "last_heartbeat"}: the decision, and
//                         with it a reservation where it is allowed
//   POST /v1/heartbeat   {"reservation": …, "units": 300}: used so far
//   POST /v1/settle      {"reservation": …, "units": 512}: what it used; durable before the answer
//
// Threads:     the lane's.
class SettleHandler {
 public:
  // Requires: both outlive what is in flight.
  SettleHandler(Guard& guard, Lane& lane) : reservations_(guard), lane_(lane) {}

  static bool is_for(std::string_view path) noexcept {
    return path == "/v1/reserve" || path == "/v1/settle" || path == "/v1/heartbeat";
  }
  // Requires: is_for(request.path()).
  void handle(const Request& request, Exchange& exchange);

 private:
  void reserve(Exchange& exchange);
  void settle(Exchange& exchange);
  void heartbeat(Exchange& exchange);
  // Calls `ask` with what the answer is to be handed to, in any thread; `write` puts it into words
  // in the lane's.
  template <class Answer>
  void ask_and_answer(Exchange& exchange,
                      const std::function<void(std::function<void(Answer)>)>& ask,
                      void (*write)(const Answer&, Responder&));

  Reservations reservations_;
  Lane& lane_;
  SafeguardBody body_;
};

}  // namespace weir::server::http
