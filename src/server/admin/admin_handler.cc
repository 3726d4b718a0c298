#include "server/admin/admin_handler.h"

#include <set>
#include <utility>

#include "guard/impl.h"
#include "policy/names.h"
#include "render/breaker_json.h"
#include "render/exposition.h"
#include "render/problem.h"
#include "render/text.h"
#include "server/admin/explain_page.h"
#include "server/admin/policy_page.h"

namespace weir::server {
namespace {

constexpr std::string_view kText = "text/plain; charset=utf-8";

}  // namespace

struct AdminHandler::Entry {
  std::string_view path;
  Page page;
  bool changes;
  std::string_view about;
};

const AdminHandler::Entry AdminHandler::kEntries[] = {
    {"/", &AdminHandler::index, false, "this list"},
    {"/healthz", &AdminHandler::healthz, false, "200 while the process is alive"},
    {"/readyz", &AdminHandler::readyz, false, "200 when requests may come, 503 while draining"},
    {"/metrics", &AdminHandler::metrics, false, "Prometheus metrics"},
    {"/policy", &AdminHandler::policy, false, "the policy in force, and the last fault in loading"},
    {"/explain", &AdminHandler::explain, false,
     "what the policy means; ?route=NAME, ?workers=N, ?outage=11s, ?format=json"},
    {"/store", &AdminHandler::store, false,
     "the shared store: state, connection, what is owed; breakers and concurrency limits"},
    {"/policy/reload", &AdminHandler::reload, true, "POST: loads the policy again"},
    {"/reset", &AdminHandler::reset, true, "POST: forgets the counters of some values"},
    {"/breaker", &AdminHandler::breaker, true,
     "POST: sets the mode of a breaker: {\"breaker\": NAME, \"mode\": \"forced_open\", \"by\": "
     "\"ada\", \"reason\": \"migration\", \"for_ms\": 600000}; the last three may be left out"},
};

AdminHandler::AdminHandler(Parts parts, AdminAccess access)
    : parts_(parts), access_(std::move(access)) {}

void AdminHandler::handle(const http::Request& request, http::Exchange& exchange) {
  const auto refused = [&exchange](const AdminAccess::Refusal& refusal) {
    if (refusal.status == 0) return false;
    exchange.problem(refusal.status, refusal.detail, refusal.lines);
    return true;
  };
  if (refused(access_.may_read(request))) return;
  for (const Entry& entry : kEntries) {
    if (entry.path != request.path()) continue;
    if (entry.changes) {
      if (request.method != "POST") return exchange.method_not_allowed("POST");
      if (refused(access_.may_change(request))) return;
    } else if (request.method != "GET" && request.method != "HEAD") {
      return exchange.method_not_allowed("GET, HEAD");
    }
    text_.clear();
    return (this->*entry.page)(request, exchange);
  }
  exchange.problem(404, "There is no such page; / lists those that are.");
}

void AdminHandler::index(const http::Request&, http::Exchange& exchange) {
  for (const Entry& entry : kEntries) {
    text_ += entry.path;
    text_.append(entry.path.size() < 16 ? 16 - entry.path.size() : 1, ' ');
    text_ += entry.about;
    text_ += '\n';
  }
  exchange.body(200, kText, text_);
}

void AdminHandler::healthz(const http::Request&, http::Exchange& exchange) {
  exchange.body(200, kText, "ok\n");
}

void AdminHandler::readyz(const http::Request&, http::Exchange& exchange) {
  const bool draining = parts_.health.draining.load(std::memory_order_relaxed);
  const auto& fault = parts_.loader.fault();
  text_ += draining ? "{\"ready\":false,\"reason\":\"draining\"" : "{\"ready\":true";
  text_ += ",\"degraded\":";
  const guard::SharedStore* shared = parts_.guard.impl().shared();
  const bool away = shared != nullptr && !(shared->answering() && shared->connected());
  const guard::UsageRecorder* usage = parts_.guard.impl().usage();
  const bool unrecorded = usage != nullptr && !usage->writable();
  const auto fallback = shared != nullptr ? shared->fallback() : std::nullopt;
  const bool without_fallback = fallback && !fallback->answers;
  text_ += fault || away || unrecorded || without_fallback ? "true" : "false";
  text_ += ",\"generation\":";
  render::append_number(text_, parts_.guard.generation());
  if (shared != nullptr) append_worker(away, shared->part());
  if (fallback) append_fallback(*fallback);
  if (usage != nullptr) text_ += ",\"journal\":" + usage->state_json();
  if (fault) {
    // Serving goes on by the policy before; whoever changed the file must hear of it.
    text_ += ",\"policy_fault\":";
    append_load_fault(text_, *fault);
  }
  text_ += "}\n";
  exchange.body(draining ? 503 : 200, render::kJsonContentType, text_);
}

// What this worker could decide without the store, which nobody sees while the store answers.
void AdminHandler::append_worker(bool away, const guard::WorkerPart& part) {
  text_ += std::string(",\"store_answers\":") + (away ? "false" : "true");
  text_ += ",\"workers\":";
  render::append_number(text_, std::uint64_t{part.workers});
  text_ += std::string(",\"has_part\":") + (part.has_part ? "true" : "false");
  if (part.has_part) return;
  text_ += ",\"why_no_part\":";
  render::append_json_string(text_, part.why_none);
}

void AdminHandler::append_fallback(const guard::SharedStore::Fallback& fallback) {
  text_ += std::string(",\"fallback_answers\":") + (fallback.answers ? "true" : "false");
  if (fallback.answers || fallback.trouble.empty()) return;
  text_ += ",\"why_no_fallback\":";
  render::append_json_string(text_, fallback.trouble);
}

void AdminHandler::metrics(const http::Request&, http::Exchange& exchange) {
  parts_.metrics.write(text_);
  exchange.body(200, render::Exposition::kContentType, text_);
}

void AdminHandler::store(const http::Request&, http::Exchange& exchange) {
  const guard::SharedStore* shared = parts_.guard.impl().shared();
  text_ = shared != nullptr ? shared->state_json() : std::string(R"({"state":"embedded"})");
  append_safeguards();
  text_.push_back('\n');
  exchange.body(200, render::kJsonContentType, text_);
}

// Puts the policy's breakers and limits into the object that text_ holds, where there are any.
void AdminHandler::append_safeguards() {
  const guard::Safeguards& safeguards = parts_.guard.impl().safeguards();
  const auto list = [this](std::string_view name, const auto& all, const auto& append) {
    if (all.empty()) return;
    text_.pop_back();
    text_ += ",\"" + std::string(name) + "\":[";
    for (const auto& each : all) {
      if (text_.back() != '[') text_ += ',';
      append(text_, each);
    }
    text_ += "]}";
  };
  list("breakers", safeguards.breakers(), render::append_breaker);
  list("concurrency", safeguards.limits(), render::append_concurrency);
}

void AdminHandler::breaker(const http::Request& request, http::Exchange& exchange) {
  using Body = http::SafeguardBody;
  constexpr unsigned kNeeded = Body::kBreaker | Body::kMode;
  constexpr unsigned kTaken = kNeeded | Body::kBy | Body::kReason | Body::kFor;
  if (const auto fault = safeguard_body_.read(request.body, kTaken, kNeeded))
    return exchange.problem(400, *fault);
  Result<Breaker> breaker = parts_.guard.breaker(safeguard_body_.breaker);
  if (!breaker) return exchange.problem(404, "The policy has no breaker of that name.");
  const Result<void> set = breaker->set_mode({.mode = safeguard_body_.mode,
                                              .by = std::string(safeguard_body_.by),
                                              .reason = std::string(safeguard_body_.reason),
                                              .lasts = safeguard_body_.lasts});
  if (!set) return exchange.problem(400, set.error().message + ".");
  render::append_breaker(text_, breaker->snapshot());
  text_ += '\n';
  exchange.body(200, render::kJsonContentType, text_);
}

void AdminHandler::policy(const http::Request&, http::Exchange& exchange) {
  append_policy_page(text_, parts_.guard, parts_.loader);
  exchange.body(200, render::kJsonContentType, text_);
}

void AdminHandler::explain(const http::Request& request, http::Exchange& exchange) {
  answer_explain(request, parts_.guard.policy(), exchange);
}

void AdminHandler::reload(const http::Request&, http::Exchange& exchange) {
  const Result<void> loaded = parts_.loader.load(PolicyLoader::Why::request);
  append_policy_page(text_, parts_.guard, parts_.loader);
  exchange.body(loaded ? 200 : 422, render::kJsonContentType, text_);
}

void AdminHandler::reset(const http::Request& request, http::Exchange& exchange) {
  if (const auto fault = body_.read(request.body)) return exchange.problem(400, *fault);
  if (body_.by_request) {
    return exchange.problem(400, "request is not taken here; give route and descriptors.");
  }
  if (body_.by_domain) {
    return exchange.problem(400, "domain is not taken here; give route and descriptors.");
  }
  // A misspelt name would forget the counter of requests that lack the value.
  const std::set<std::string> known = policy::source_names(parts_.guard.policy().model());
  for (const Descriptor& each : body_.descriptors) {
    if (known.contains(std::string(each.name))) continue;
    return exchange.problem(400, "descriptors: no rule counts by '" + std::string(each.name) +
                                     "'; the policy knows: " + policy::joined(known));
  }
  const Result<void> done = parts_.guard.reset(body_.route, body_.descriptors);
  if (done) return exchange.body(200, render::kJsonContentType, "{\"reset\":true}\n");
  const ErrorCode code = done.error().code;
  exchange.problem(code == ErrorCode::not_found     ? 404
                   : code == ErrorCode::unavailable ? 503
                                                    : 400,
                   done.error().message);
}

}  // namespace weir::server
