#include "drill/run/call_plan.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace weir::drill {
namespace {

using namespace std::chrono_literals;

constexpr Nanos kBackoff = 200ms;

}  // namespace

std::string value_of(const std::string& source, std::uint32_t client) {
  // Addresses of the range that is kept for examples.
  if (source == "ip") {
    return "198.51." + std::to_string(100 + client / 250) + "." + std::to_string(client % 250 + 1);
  }
  if (source == "method") return "GET";
  if (source == "path") return "/drill/" + std::to_string(client);
  return "drill-" + std::to_string(client);
}

CallPlan::CallPlan(const Scenario& scenario, const Options& options, Request request)
    : scenario_(scenario), options_(options), request_(std::move(request)), random_(options.seed) {}

ClientKind CallPlan::kind_of(std::uint32_t client) const noexcept {
  if (client == 0) return ClientKind::hostile;
  if (options_.all_steady) return ClientKind::steady;
  constexpr ClientKind kOthers[] = {ClientKind::steady, ClientKind::bursty, ClientKind::retrying};
  return kOthers[(client - 1) % std::size(kOthers)];
}

void CallPlan::begin(MonoTime at) {
  begin_ = last_ = at;
  end_ = at + scenario_.length();
  for (std::size_t route = 0; route < options_.routes; ++route) {
    for (std::uint32_t client = 0; client < options_.clients; ++client) {
      follow({.at = at, .tag = std::uint64_t{route} << 40U | client, .left = 0});
    }
  }
}

// The client's next call, after one at `due.at`: at once where its burst goes on, else somewhere
// between half its pace and one and a half.
void CallPlan::follow(Due due) {
  if (due.left > 1) {
    --due.left;
    due_.push(due);
    return;
  }
  const ClientKind kind = kind_of(client_of(due.tag));
  const bool first = due.left == 0;
  due.left = kind == ClientKind::bursty ? kBurst : 1;
  const double weights = options_.hostility + options_.clients - 1;
  const double share = kind == ClientKind::hostile ? options_.hostility : 1.0;
  const double load = scenario_.phases[phase_at(due.at)].load_percent / 100.0;
  const double pace = due.left * weights / (options_.rate * load * share);
  // The first calls are spread, so that not all begin at once.
  const double part =
      (first ? 0.0 : 0.5) + std::uniform_real_distribution<double>(0.0, 1.0)(random_);
  due.at += std::chrono::duration_cast<Nanos>(std::chrono::duration<double>(pace * part));
  if (due.at < end_) due_.push(due);
}

std::size_t CallPlan::phase_at(MonoTime at) const {
  Nanos passed = at - begin_;
  for (std::size_t i = 0; i < scenario_.phases.size(); ++i) {
    if (passed < scenario_.phases[i].length) return i;
    passed -= scenario_.phases[i].length;
  }
  return scenario_.phases.size() - 1;
}

bool CallPlan::next(HttpLoad::Call& call) {
  if (due_.empty()) return false;
  const Due due = due_.top();
  due_.pop();
  // Who comes back may have been told so after a later call was handed out.
  call.due = last_ = std::max(last_, due.at);
  call.tag = due.tag;
  const std::size_t phase = phase_at(due.at);
  call.request = request_(route_of(due.tag), client_of(due.tag), phase);
  if (attempt_of(due.tag) == 0) follow(due);
  return true;
}

void CallPlan::take(const HttpOutcome& outcome) {
  if (kind_of(client_of(outcome.tag)) != ClientKind::retrying) return;
  if (outcome.status >= 200 && outcome.status < 400) return;
  const std::uint32_t attempt = attempt_of(outcome.tag);
  if (attempt >= kRetries) return;
  const MonoTime at = outcome.answered + kBackoff * (1 << attempt);
  if (at < end_) due_.push({.at = at, .tag = outcome.tag + (std::uint64_t{1} << 32U)});
}

}  // namespace weir::drill
