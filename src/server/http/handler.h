#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "server/http/request.h"
#include "weir/decision.h"

namespace weir::server::http {

// Writes the answer to one request. One of the three is called, once; the connection adds what
// frames it. `lines` are further header lines, each "Name: value\r\n".
class Responder {
 public:
  virtual ~Responder() = default;
  // A decision, with its own status, headers and body.
  virtual void decision(const Decision& decision) = 0;
  // The request could not become one. `detail`: a sentence of ours.
  virtual void problem(int status, std::string_view detail, std::string_view lines = {}) = 0;
  // Anything else.
  virtual void body(int status, std::string_view content_type, std::string_view body,
                    std::string_view lines = {}) = 0;

  // 405, with the methods that the path does answer.
  void method_not_allowed(std::string_view allowed);
};

class HttpConnection;

// The promise of an answer that comes later; see Exchange::later.
//
// Threads:     the connection's lane.
class Later {
 public:
  // Answers through the Responder that `write` is given. Does nothing when the client has gone
  // meanwhile. At most once, and after handle() has returned.
  void send(const std::function<void(Responder&)>& write);

 private:
  friend class HttpConnection;
  struct State;
  explicit Later(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

// What a Handler answers one request through: at once, or by later().
class Exchange : public Responder {
 public:
  // The answer comes through this, after handle() has returned. Answers go out in the order of the
  // requests all the same.
  virtual Later later() = 0;
};

// Answers requests: the translation between HTTP and what the door is for.
//
// Threads:     the lane's alone; one a lane.
class Handler {
 public:
  virtual ~Handler() = default;
  virtual void handle(const Request& request, Exchange& exchange) = 0;
};

}  // namespace weir::server::http
