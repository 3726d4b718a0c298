#include "server/http/settle_handler.h"

#include <optional>
#include <utility>

#include "render/decision_json.h"
#include "render/headers.h"
#include "render/problem.h"
#include "render/text.h"
#include "server/lane.h"

namespace weir::server::http {
namespace {

int status_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::not_found:
      return 404;
    case ErrorCode::failed_precondition:
      return 409;
    case ErrorCode::invalid_argument:
      return 400;
    default:
      return 503;
  }
}

// Sentences of the library begin with what they are about, and of the door with a capital.
void problem(const Error& error, Responder& answer) {
  const int status = status_of(error.code);
  answer.problem(status, error.message, status == 503 ? "Retry-After: 1\r\n" : "");
}

void write_reservation(const Reservation& reservation, Responder& answer) {
  const Decision& decision = reservation.decision;
  if (!decision.allowed()) {
    if (decision.reason == Reason::invalid_request) {
      return answer.problem(400,
                            "Nothing can be reserved there: " + std::string(decision.fault) + ".");
    }
    return answer.decision(decision);
  }
  std::string text = "{";
  render::append_decision_members(text, decision);
  text += ",\"reservation\":\"" + reservation.id + "\"}\n";
  std::string lines;
  render::append_headers(lines, decision);
  answer.body(200, render::kJsonContentType, text, lines);
}

void write_settlement(const Result<Settlement>& settled, Responder& answer) {
  if (!settled) return problem(settled.error(), answer);
  std::string text = "{\"reserved\":" + std::to_string(settled->reserved) +
                     ",\"units\":" + std::to_string(settled->units) +
                     ",\"overdraft\":" + std::to_string(settled->overdraft);
  if (settled->repeated) text += ",\"repeated\":true";
  text += "}\n";
  answer.body(200, render::kJsonContentType, text);
}

// One answer that is under way.
template <class Answer>
struct Call {
  std::optional<Answer> answer;
  std::optional<Later> later;
};

}  // namespace

template <class Answer>
void SettleHandler::ask_and_answer(Exchange& exchange,
                                   const std::function<void(std::function<void(Answer)>)>& ask,
                                   void (*write)(const Answer&, Responder&)) {
  auto call = std::make_shared<Call<Answer>>();
  call->later.emplace(exchange.later());
  Lane& lane = lane_;
  ask([call, &lane, write](Answer answer) {
    call->answer.emplace(std::move(answer));
    lane.post([call, write] {
      call->later->send([&](Responder& responder) { write(*call->answer, responder); });
    });
  });
}

void SettleHandler::handle(const Request& request, Exchange& exchange) {
  if (request.method != "POST") return exchange.method_not_allowed("POST");
  const bool reserves = request.path() == "/v1/reserve";
  constexpr unsigned kToReserve = SafeguardBody::kRoute | SafeguardBody::kEstimate |
                                  SafeguardBody::kExpire | SafeguardBody::kOnExpiry;
  constexpr unsigned kNeeded = SafeguardBody::kRoute | SafeguardBody::kEstimate;
  constexpr unsigned kToSettle = SafeguardBody::kReservation | SafeguardBody::kUnits;
  // What a reservation ends by may be the route's to say.
  const unsigned needed = reserves ? kNeeded : kToSettle;
  if (reserves && request.count("Idempotency-Key") > 0) {
    return exchange.problem(400,
                            "An Idempotency-Key goes with /v1/check; a reservation is settled once "
                            "by its own name.");
  }
  const unsigned taken = reserves ? kToReserve | SafeguardBody::kDescriptors : needed;
  if (const auto fault = body_.read(request.body, taken, needed)) {
    return exchange.problem(400, *fault);
  }
  if (reserves) return reserve(exchange);
  request.path() == "/v1/settle" ? settle(exchange) : heartbeat(exchange);
}

void SettleHandler::reserve(Exchange& exchange) {
  ask_and_answer<Reservation>(
      exchange,
      [this](std::function<void(Reservation)> done) {
        reservations_.reserve_async(
            body_.route, body_.descriptors, body_.estimate,
            {.expire = body_.expire.value_or(Nanos{0}), .on_expiry = body_.on_expiry},
            std::move(done));
      },
      write_reservation);
}

void SettleHandler::settle(Exchange& exchange) {
  ask_and_answer<Result<Settlement>>(
      exchange,
      [this](std::function<void(Result<Settlement>)> done) {
        reservations_.settle_async(body_.reservation, body_.units, std::move(done));
      },
      write_settlement);
}

void SettleHandler::heartbeat(Exchange& exchange) {
  const Result<Nanos> expires = reservations_.heartbeat(body_.reservation, body_.units);
  if (!expires) return problem(expires.error(), exchange);
  std::string text = "{\"expires_after_ms\":";
  render::append_number(text, render::ceil_to(*expires, std::chrono::milliseconds(1)));
  text += "}\n";
  exchange.body(200, render::kJsonContentType, text);
}

}  // namespace weir::server::http
