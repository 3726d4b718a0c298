#include "server/http/check_handler.h"

#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "guard/descriptor_values.h"
#include "guard/impl.h"
#include "guard/metered_call.h"
#include "guard/request_name.h"
#include "policy/fault_list.h"
#include "policy/model.h"
#include "render/decision_json.h"
#include "render/headers.h"
#include "render/problem.h"
#include "server/lane.h"

namespace weir::server::http {
namespace {

// Bodies above this size leave no room behind.
constexpr std::size_t kKeptBody = 64U << 10U;

}  // namespace

// One question to the Guard. Its answer comes inside check_async, or later, from any thread.
struct CheckHandler::Call {
  Lane& lane;
  Decision decision;
  std::thread::id asker;
  bool asking = false;    // check_async has not returned; the asker alone looks at it
  bool answered = false;  // before it returned
  std::optional<Later> later;

  explicit Call(Lane& in) : lane(in) {}

  void done(Decision found) {
    decision = std::move(found);
    if (std::this_thread::get_id() == asker && asking) {
      answered = true;
      return;
    }
    std::shared_ptr<Call> kept(this);
    lane.post(
        [kept] { kept->later->send([&](Responder& answer) { answer.decision(kept->decision); }); });
  }
};

CheckHandler::CheckHandler(Parts parts, Lane& lane)
    : parts_(std::move(parts)),
      lane_(lane),
      asker_(parts_.limiter, lane),
      safeguards_(parts_.guard,
                  [&lane](std::function<void()> what) { lane.post(std::move(what)); }),
      settling_(parts_.guard, lane) {}
CheckHandler::~CheckHandler() = default;

void CheckHandler::handle(const Request& request, Exchange& exchange) {
  if (request.path() == "/v1/check") return decide(request, exchange);
  if (request.path() == "/json") return json(request, exchange);
  if (request.path() == "/healthcheck") return healthcheck(request, exchange);
  if (SafeguardHandler::is_for(request.path())) return safeguards_.handle(request, exchange);
  if (SettleHandler::is_for(request.path())) return settling_.handle(request, exchange);
  exchange.problem(404, "There is nothing here; POST /v1/check decides.");
}

void CheckHandler::healthcheck(const Request& request, Exchange& exchange) {
  if (request.method != "GET" && request.method != "HEAD") {
    return exchange.method_not_allowed("GET, HEAD");
  }
  const bool ready = parts_.ready();
  exchange.body(ready ? 200 : 500, "text/plain", ready ? "OK" : "");
}

void CheckHandler::json(const Request& request, Exchange& exchange) {
  if (const auto fault = rate_limit_body_.read(request.body)) {
    return exchange.problem(400, *fault);
  }
  asker_.ask(rate_limit_body_.ask(), RateLimitAsker::Form::protocol, exchange);
  if (request.body.size() > kKeptBody) rate_limit_body_ = {};
}

void CheckHandler::decide(const Request& request, Exchange& exchange) {
  if (request.method != "POST") return exchange.method_not_allowed("POST");
  if (const auto fault = body_.read(request.body)) {
    return exchange.problem(400, *fault);
  }
  const std::string_view key = request.field("Idempotency-Key");
  if (key.data() != nullptr) {
    if (request.count("Idempotency-Key") > 1 || key.empty() ||
        key.size() > kMaxIdempotencyKeyBytes) {
      return exchange.problem(400, "Idempotency-Key must be given once, and be 1 to 255 bytes.");
    }
    if (!body_.by_domain) return check_named(key, exchange);
  }
  if (!body_.by_domain) return check(exchange);
  guard::RateLimitAsk ask = body_.ask();
  ask.idempotency_key = key;
  asker_.ask(ask, RateLimitAsker::Form::decision, exchange);
  if (request.body.size() > kKeptBody) body_ = {};
}

void CheckHandler::check(Exchange& exchange) {
  if (spare_ == nullptr) spare_ = std::make_unique<Call>(lane_);
  Call* const call = spare_.release();
  call->asker = std::this_thread::get_id();
  call->asking = true;
  call->answered = false;
  ask([call](Decision decision) { call->done(std::move(decision)); });
  call->asking = false;
  if (!call->answered) {
    // The answer, if it is there already, waits in the lane's queue behind us.
    call->later.emplace(exchange.later());
    return;
  }
  answer(call->decision, exchange);
  spare_.reset(call);
}

// Who misspelt a route's name is told the one that is nearest, as on the command line; of more
// routes than these comparing would cost more than checking.
void CheckHandler::answer(Decision& decision, Exchange& exchange) {
  constexpr std::size_t kMostCompared = 64;
  if (decision.reason != Reason::unknown_route) return exchange.decision(decision);
  const Policy policy = parts_.guard.policy();  // holds the name until it is written
  const auto& routes = policy.model().routes;
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < routes.size() && routes.size() <= kMostCompared; ++i)
    names.push_back(routes[i].name);
  decision.fault = policy::nearest(body_.route, names);
  exchange.decision(decision);
  decision.fault = {};
}

void CheckHandler::check_named(std::string_view key, Exchange& exchange) {
  struct Named {
    guard::MeteredCall call;
    Decision decision;
    std::optional<Later> later;
  };
  auto named = std::make_shared<Named>();
  named->call.idempotency_key = key;
  named->later.emplace(exchange.later());
  Lane& lane = lane_;
  ask(
      [named, &lane](Decision decision) {
        named->decision = std::move(decision);
        lane.post([named] {
          named->later->send([&](Responder& answer) { answer.decision(named->decision); });
        });
      },
      std::shared_ptr<guard::MeteredCall>(named, &named->call));
}

void CheckHandler::ask(std::function<void(Decision)> done,
                       const std::shared_ptr<guard::MeteredCall>& call) {
  const CheckOptions options{.cost = body_.cost};
  if (!body_.by_request) {
    return parts_.guard.impl().check_async(body_.route, guard::DescriptorValues(body_.descriptors),
                                           options, std::move(done), call);
  }
  const HttpRequest request{
      .method = body_.method, .target = body_.path, .peer = body_.peer, .headers = body_.headers};
  parts_.guard.impl().check_request_async(request, options, std::move(done), call);
}

}  // namespace weir::server::http
