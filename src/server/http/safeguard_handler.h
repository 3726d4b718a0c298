#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "server/http/handler.h"
#include "server/http/safeguard_body.h"
#include "weir/guard.h"

namespace weir::server::http {

// Breakers and concurrency leases for callers in other languages:
//   GET  /v1/breaker/NAME           its state
//   POST /v1/breaker/NAME/admit     {"spread": "ada"}: a permit, or 503
//   POST /v1/breaker/NAME/report    {"permit": …, "outcome": "ok"}: how the call ended
//   POST /v1/lease/NAME/acquire     {"descriptors": {…}, "weight": 1, "id": …}: a lease, or 429
//   POST /v1/lease/NAME/renew       {"descriptors": {…}, "id": …}: 404 where it is over
//   POST /v1/lease/NAME/release     the same
//
// Guarantees:  nothing is kept for a caller but what its breaker and limit keep: a permit is in its
//              token, a lease ends by itself.
// Threads:     the lane's.
class SafeguardHandler {
 public:
  // Runs it in the lane's thread, once handle() has returned.
  using Post = std::function<void(std::function<void()>)>;

  SafeguardHandler(Guard& guard, Post post) : guard_(guard), post_(std::move(post)) {}

  static bool is_for(std::string_view path) noexcept {
    return path.starts_with("/v1/breaker/") || path.starts_with("/v1/lease/");
  }
  // Requires: is_for(request.path()).
  void handle(const Request& request, Exchange& exchange);

 private:
  // An answer, written in whichever thread knows it.
  struct Page {
    int status = 200;
    std::string text;
    std::string lines{};
    bool problem = false;  // `text` is the sentence

    void write(Responder& to) const;
  };
  // `start` is given what takes the page, now or later.
  void answer(Exchange& exchange, const std::function<void(std::function<void(Page)>)>& start);

  void breaker(const Request& request, std::string_view name, std::string_view verb,
               Exchange& exchange);
  void admit(const Request& request, Breaker& breaker, Exchange& exchange);
  void report(const Request& request, Breaker& breaker, Exchange& exchange);
  void lease(const Request& request, std::string_view name, std::string_view verb,
             Exchange& exchange);
  static Page page_of(const Breaker& breaker, Admission admission);
  static Page page_of(const Result<LeaseAnswer>& answer);
  static Page page_of(const Error& error);
  // False, and answered: the body is not what this question takes.
  bool read(const Request& request, unsigned taken, unsigned needed, Exchange& exchange);

  Guard& guard_;
  Post post_;
  SafeguardBody body_;
  std::string text_;
};

}  // namespace weir::server::http
