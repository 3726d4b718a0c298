#include "server/http/safeguard_handler.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include "breaker/permit_token.h"
#include "render/breaker_json.h"
#include "render/problem.h"
#include "render/text.h"

namespace weir::server::http {
namespace {

using std::chrono::seconds;

// Whole seconds, rounded up, at least one.
std::string retry_after(const std::optional<Nanos>& wait) {
  if (!wait) return {};
  const std::uint64_t whole = std::max<std::uint64_t>(render::ceil_to(*wait, seconds(1)), 1);
  return "Retry-After: " + std::to_string(whole) + "\r\n";
}

// FNV-1a, its halves folded: which part of the callers goes first need not be unguessable.
std::uint64_t spread_of(std::string_view who) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : who) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash ^ (hash >> 32) ^ (hash >> 16);
}

int status_of(LeaseRefusal refusal) noexcept {
  switch (refusal) {
    case LeaseRefusal::none:
      return 200;
    case LeaseRefusal::full:
    case LeaseRefusal::queue_full:
    case LeaseRefusal::timed_out:
      return 429;
    case LeaseRefusal::gone:
      return 404;
    case LeaseRefusal::never_fits:
    case LeaseRefusal::held_otherwise:
    case LeaseRefusal::invalid_id:
      return 400;
    case LeaseRefusal::too_many_keys:
      return 503;
  }
  return 503;
}

}  // namespace

void SafeguardHandler::handle(const Request& request, Exchange& exchange) {
  text_.clear();
  std::string_view path = request.path();
  const bool breakers = path.starts_with("/v1/breaker/");
  path.remove_prefix(breakers ? std::string_view("/v1/breaker/").size()
                              : std::string_view("/v1/lease/").size());
  const std::size_t slash = path.find('/');
  const std::string_view name = path.substr(0, slash);
  const std::string_view verb = slash == path.npos ? std::string_view() : path.substr(slash + 1);
  breakers ? breaker(request, name, verb, exchange) : lease(request, name, verb, exchange);
}

bool SafeguardHandler::read(const Request& request, unsigned taken, unsigned needed,
                            Exchange& exchange) {
  if (request.method != "POST") {
    exchange.method_not_allowed("POST");
    return false;
  }
  const auto fault = body_.read(request.body, taken, needed);
  if (fault) exchange.problem(400, *fault);
  return !fault;
}

void SafeguardHandler::breaker(const Request& request, std::string_view name, std::string_view verb,
                               Exchange& exchange) {
  Result<Breaker> found = guard_.breaker(name);
  if (!found) return exchange.problem(404, "The policy has no breaker of that name.");
  if (verb == "admit") return admit(request, *found, exchange);
  if (verb == "report") return report(request, *found, exchange);
  if (!verb.empty())
    return exchange.problem(404, "A breaker answers GET, and POST to its admit and report.");
  if (request.method != "GET" && request.method != "HEAD")
    return exchange.method_not_allowed("GET, HEAD");
  found->poll();
  render::append_breaker(text_, found->snapshot());
  text_ += '\n';
  exchange.body(200, render::kJsonContentType, text_);
}

void SafeguardHandler::admit(const Request& request, Breaker& breaker, Exchange& exchange) {
  if (!read(request, SafeguardBody::kSpread, 0, exchange)) return;
  AdmitOptions options;
  if (body_.spread) options.spread = spread_of(*body_.spread);
  Admission admission = breaker.admit(options);
  if (!admission) {
    render::append_rejected(text_, admission.rejected());
    text_ += '\n';
    return exchange.body(503, render::kJsonContentType, text_,
                         retry_after(admission.rejected().retry_after));
  }
  const bool probe = admission.permit().is_probe();
  text_ = R"({"admitted":true,"permit":")" +
          breaker::PermitToken::of(std::move(admission.permit())) + '"';
  if (probe) text_ += R"(,"probe":true)";
  text_ += "}\n";
  exchange.body(200, render::kJsonContentType, text_);
}

void SafeguardHandler::report(const Request& request, Breaker& breaker, Exchange& exchange) {
  constexpr unsigned kNeeded = SafeguardBody::kPermit | SafeguardBody::kOutcome;
  constexpr unsigned kTaken = kNeeded | SafeguardBody::kRetryAfter | SafeguardBody::kOpenFor;
  if (!read(request, kTaken, kNeeded, exchange)) return;
  auto permit = breaker::PermitToken::read(breaker, body_.permit);
  if (!permit)
    return exchange.problem(404, "No such permit was given by this breaker since it began.");
  CallVerdict verdict(body_.outcome);
  verdict.retry_after = body_.retry_after;
  if (body_.open_for) {
    verdict.open = true;
    if (*body_.open_for > Nanos::zero()) verdict.retry_after = body_.open_for;
  }
  permit->report(verdict);
  text_ = R"({"state":")";
  text_ += to_string(breaker.state());
  text_ += "\"}\n";
  exchange.body(200, render::kJsonContentType, text_);
}

void SafeguardHandler::lease(const Request& request, std::string_view name, std::string_view verb,
                             Exchange& exchange) {
  constexpr unsigned kBoth = SafeguardBody::kDescriptors | SafeguardBody::kId;
  if (verb == "acquire") {
    if (!read(request, kBoth | SafeguardBody::kWeight, 0, exchange)) return;
    return answer(guard_.lease(name, body_.descriptors, {.id = body_.id, .weight = body_.weight}),
                  exchange);
  }
  if (verb == "renew") {
    if (!read(request, kBoth, SafeguardBody::kId, exchange)) return;
    return answer(guard_.renew_lease(name, body_.descriptors, body_.id), exchange);
  }
  if (verb != "release")
    return exchange.problem(404, "A limit answers POST to its acquire, renew and release.");
  if (!read(request, kBoth, SafeguardBody::kId, exchange)) return;
  const Result<bool> released = guard_.release_lease(name, body_.descriptors, body_.id);
  if (!released) return exchange.problem(404, "The policy has no concurrency limit of that name.");
  exchange.body(*released ? 200 : 404, render::kJsonContentType,
                *released ? "{\"released\":true}\n" : "{\"released\":false,\"reason\":\"gone\"}\n");
}

void SafeguardHandler::answer(const Result<LeaseAnswer>& answer, Exchange& exchange) {
  if (!answer) return exchange.problem(404, "The policy has no concurrency limit of that name.");
  render::append_lease(text_, *answer);
  text_ += '\n';
  exchange.body(status_of(answer->refusal), render::kJsonContentType, text_,
                retry_after(answer->retry_after));
}

}  // namespace weir::server::http
