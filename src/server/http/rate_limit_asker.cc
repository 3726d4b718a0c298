#include "server/http/rate_limit_asker.h"

#include <optional>
#include <string>
#include <utility>

#include "render/headers.h"
#include "server/http/rate_limit_json.h"
#include "server/lane.h"

namespace weir::server::http {
namespace {

// An answer of more statuses leaves no room behind.
constexpr std::size_t kKeptStatuses = 1024;

void write(Responder& out, RateLimitAsker::Form form, const guard::RateLimitAnswer& answer) {
  if (form == RateLimitAsker::Form::decision) return out.decision(answer.decision);
  std::string body;
  append_rate_limit_json(body, answer);
  std::string lines;
  render::append_proxy_headers(lines, answer.decision);
  const Verdict verdict = answer.decision.verdict;
  const int status = verdict == Verdict::allowed ? 200 : verdict == Verdict::limited ? 429 : 503;
  out.body(status, "application/json", body, lines);
}

}  // namespace

// One ask. It belongs to its own ticket until it is answered.
struct RateLimitAsker::Call {
  Lane& lane;
  Form form = Form::decision;
  guard::RateLimitAnswer answer;
  std::optional<Later> later;

  explicit Call(Lane& in) : lane(in) {}
};

class RateLimitAsker::Listener final : public guard::RateLimitListener {
 public:
  static Listener& one() {
    static Listener listener;
    return listener;
  }
  void answered(std::uint64_t ticket, guard::RateLimitAnswer answer) override {
    std::shared_ptr<Call> call(reinterpret_cast<Call*>(ticket));
    call->answer = std::move(answer);
    // Also where the answer comes before decide() returns: the lane does this afterwards.
    call->lane.post([call] {
      call->later->send([&](Responder& out) { write(out, call->form, call->answer); });
    });
  }
};

RateLimitAsker::RateLimitAsker(guard::RateLimiter& limiter, Lane& lane)
    : limiter_(limiter), lane_(lane) {}
RateLimitAsker::~RateLimitAsker() = default;

void RateLimitAsker::ask(const guard::RateLimitAsk& ask, Form form, Exchange& exchange) {
  if (spare_ == nullptr) spare_ = std::make_unique<Call>(lane_);
  Call* const call = spare_.release();
  call->form = form;
  call->answer.clear();
  // Apart from the call's own answer, which another thread may be filling in already.
  guard::RateLimitAnswer now = std::move(call->answer);
  const auto ticket = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(call));
  if (!limiter_.decide(ask, now, Listener::one(), ticket)) {
    call->later.emplace(exchange.later());
    return;
  }
  write(exchange, form, now);
  const bool keep = now.statuses.capacity() <= kKeptStatuses;
  if (keep) call->answer = std::move(now);
  spare_.reset(call);
}

}  // namespace weir::server::http
