#include "server/http/safeguard_handler.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "breaker/permit_token.h"
#include "render/breaker_json.h"
#include "render/problem.h"
#include "render/text.h"

namespace weir::server::http {
namespace {

using std::chrono::milliseconds;
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
    case LeaseRefusal::store_away:
      return 503;
  }
  return 503;
}

int digit_of(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// A name as it stands in a path, where "%3A" is ':'. What is no escape stays as it is, and names
// nothing.
std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? digit_of(text[i + 1]) : -1;
    const int low = high >= 0 ? digit_of(text[i + 2]) : -1;
    if (low < 0) {
      out += text[i];
      continue;
    }
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

}  // namespace

void SafeguardHandler::Page::write(Responder& to) const {
  if (problem) return to.problem(status, text, lines);
  to.body(status, render::kJsonContentType, text, lines);
}

void SafeguardHandler::answer(Exchange& exchange,
                              const std::function<void(std::function<void(Page)>)>& start) {
  struct Call {
    std::thread::id asker = std::this_thread::get_id();
    bool asking = true;  // start has not returned; the asker alone looks at it
    bool answered = false;
    Page page;
    std::optional<Later> later{};
  };
  const auto call = std::make_shared<Call>();
  start([call, post = post_](Page page) {
    call->page = std::move(page);
    if (std::this_thread::get_id() == call->asker && call->asking) {
      call->answered = true;
      return;
    }
    post([call] { call->later->send([&](Responder& to) { call->page.write(to); }); });
  });
  call->asking = false;
  if (call->answered) return call->page.write(exchange);
  // The answer, if it is there already, waits in the lane's queue behind us.
  call->later.emplace(exchange.later());
}

void SafeguardHandler::handle(const Request& request, Exchange& exchange) {
  text_.clear();
  std::string_view path = request.path();
  const bool breakers = path.starts_with("/v1/breaker/");
  path.remove_prefix(breakers ? std::string_view("/v1/breaker/").size()
                              : std::string_view("/v1/lease/").size());
  const std::size_t slash = path.find('/');
  const std::string name = decoded(path.substr(0, slash));
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
  // As it is: who looks changes nothing, or a monitor would decide when it probes.
  render::append_breaker(text_, found->snapshot());
  text_ += '\n';
  exchange.body(200, render::kJsonContentType, text_);
}

void SafeguardHandler::admit(const Request& request, Breaker& breaker, Exchange& exchange) {
  if (!read(request, SafeguardBody::kSpread, 0, exchange)) return;
  AdmitOptions options;
  if (body_.spread) options.spread = spread_of(*body_.spread);
  answer(exchange, [&](std::function<void(Page)> done) {
    breaker.admit_async([breaker, done = std::move(done)](
                            Admission admission) { done(page_of(breaker, std::move(admission))); },
                        options);
  });
}

SafeguardHandler::Page SafeguardHandler::page_of(const Breaker& breaker, Admission admission) {
  Page page;
  if (!admission) {
    render::append_rejected(page.text, admission.rejected());
    page.text += '\n';
    page.status = 503;
    page.lines = retry_after(admission.rejected().retry_after);
    return page;
  }
  const bool probe = admission.permit().is_probe();
  page.text = R"({"admitted":true,"permit":")" +
              breaker::PermitToken::of(breaker, std::move(admission.permit())) + '"';
  if (probe) page.text += R"(,"probe":true)";
  page.text += "}\n";
  return page;
}

void SafeguardHandler::report(const Request& request, Breaker& breaker, Exchange& exchange) {
  constexpr unsigned kNeeded = SafeguardBody::kPermit | SafeguardBody::kOutcome;
  constexpr unsigned kTaken = kNeeded | SafeguardBody::kRetryAfter | SafeguardBody::kOpenFor;
  if (!read(request, kTaken, kNeeded, exchange)) return;
  auto permit = breaker::PermitToken::read(breaker, body_.permit);
  if (!permit)
    return exchange.problem(404, "No such permit was given by this breaker since it began.");
  const Nanos most = breaker.config().max_retry_after;
  if (body_.open_for && *body_.open_for > most)
    return exchange.problem(400, "open_for_ms must be at most " +
                                     std::to_string(render::ceil_to(most, milliseconds(1))) +
                                     ", the max_retry_after of this breaker.");
  CallVerdict verdict(body_.outcome);
  verdict.retry_after = body_.retry_after;
  if (body_.open_for) {
    verdict.open = true;
    if (*body_.open_for > Nanos::zero()) verdict.retry_after = body_.open_for;
  }
  permit->report(verdict);
  text_ = R"({"state":")";
  text_ += to_string(breaker.state());
  text_ += '"';
  if (const FleetTie tie = breaker.tie(); tie != FleetTie::none)
    text_ += tie == FleetTie::follows ? R"(,"shared":{"store":"answers"})"
                                      : R"(,"shared":{"store":"away"})";
  // A Retry-After is the dependency's, and not the caller's to correct.
  if (body_.retry_after && *body_.retry_after > most) {
    text_ += ",\"retry_after_cut_to_ms\":";
    render::append_number(text_, render::ceil_to(most, milliseconds(1)));
  }
  text_ += "}\n";
  exchange.body(200, render::kJsonContentType, text_);
}

void SafeguardHandler::lease(const Request& request, std::string_view name, std::string_view verb,
                             Exchange& exchange) {
  constexpr unsigned kBoth = SafeguardBody::kDescriptors | SafeguardBody::kId;
  if (verb == "acquire") {
    if (!read(request, kBoth | SafeguardBody::kWeight, 0, exchange)) return;
    return answer(exchange, [&](std::function<void(Page)> done) {
      guard_.lease_async(
          name, body_.descriptors, {.id = body_.id, .weight = body_.weight},
          [done = std::move(done)](const Result<LeaseAnswer>& given) { done(page_of(given)); });
    });
  }
  if (verb == "renew") {
    if (!read(request, kBoth, SafeguardBody::kId, exchange)) return;
    return answer(exchange, [&](std::function<void(Page)> done) {
      guard_.renew_lease_async(
          name, body_.descriptors, *body_.id,
          [done = std::move(done)](const Result<LeaseAnswer>& given) { done(page_of(given)); });
    });
  }
  if (verb != "release")
    return exchange.problem(404, "A limit answers POST to its acquire, renew and release.");
  if (!read(request, kBoth, SafeguardBody::kId, exchange)) return;
  answer(exchange, [&](std::function<void(Page)> done) {
    guard_.release_lease_async(
        name, body_.descriptors, *body_.id, [done = std::move(done)](const Result<bool>& released) {
          if (!released) return done(page_of(released.error()));
          done({.status = *released ? 200 : 404,
                .text = *released ? "{\"released\":true}\n"
                                  : "{\"released\":false,\"reason\":\"gone\"}\n"});
        });
  });
}

SafeguardHandler::Page SafeguardHandler::page_of(const Error& error) {
  if (error.code == ErrorCode::not_found)
    return {.status = 404,
            .text = "The policy has no concurrency limit of that name.",
            .problem = true};
  return {.status = error.code == ErrorCode::unavailable ? 503 : 400,
          .text = error.message + ".",
          .problem = true};
}

SafeguardHandler::Page SafeguardHandler::page_of(const Result<LeaseAnswer>& answer) {
  if (!answer) return page_of(answer.error());
  Page page{.status = status_of(answer->refusal), .text = {}};
  render::append_lease(page.text, *answer);
  page.text += '\n';
  page.lines = retry_after(answer->retry_after);
  return page;
}

}  // namespace weir::server::http
