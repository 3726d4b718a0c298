#include "drill/run/call_plan.h"

#include "render/text.h"

namespace weir::drill {

std::string value_of(const std::string& source, std::uint32_t client) {
  // Addresses of the range that is kept for examples.
  if (source == "ip") {
    return "198.51." + std::to_string(100 + client / 250) + "." + std::to_string(client % 250 + 1);
  }
  if (source == "method") return "GET";
  if (source == "path") return "/drill/" + std::to_string(client);
  return "drill-" + std::to_string(client);
}

CallPlan::CallPlan(const policy::Model& model, const Scenario& scenario, double rate,
                   std::uint32_t clients, std::uint64_t seed)
    : scenario_(scenario), rate_(rate), clients_(clients), random_(seed) {
  for (const policy::Route& route : model.routes) {
    if (!route.rules.empty()) routes_.push_back(&route);
  }
  for (std::size_t i = 0; i < routes_.size(); ++i) {
    bodies_.emplace_back();
    for (std::uint32_t client = 0; client < clients_; ++client) {
      bodies_.back().push_back(body_of(i, client));
    }
  }
}

std::string CallPlan::body_of(std::size_t route, std::uint32_t client) const {
  std::string body = "{\"route\":";
  render::append_json_string(body, routes_[route]->name);
  body += ",\"descriptors\":{";
  for (const policy::Source& source : routes_[route]->sources) {
    if (!body.ends_with('{')) body += ',';
    render::append_json_string(body, source.text);
    body += ':';
    render::append_json_string(body, value_of(source.text, client));
  }
  return body + "}}";
}

std::uint32_t CallPlan::load_percent_at(Nanos passed) const {
  for (const Phase& phase : scenario_.phases) {
    if (passed < phase.length) return phase.load_percent;
    passed -= phase.length;
  }
  return 0;
}

bool CallPlan::next(HttpLoad::Call& call) {
  const std::uint32_t percent = load_percent_at(next_ - begin_);
  if (percent == 0 || routes_.empty()) return false;
  const std::size_t route = turn_++ % routes_.size();
  const std::uint64_t drawn = random_() % (kHostility + clients_ - 1);
  const auto client = drawn < kHostility ? 0U : static_cast<std::uint32_t>(drawn - kHostility + 1);
  call.due = next_;
  call.tag = std::uint64_t{route} << 32U | client;
  call.body = bodies_[route][client];
  const double every =
      1.0 / (rate_ * static_cast<double>(routes_.size()) * static_cast<double>(percent) / 100.0);
  next_ += std::chrono::duration_cast<Nanos>(std::chrono::duration<double>(every));
  return true;
}

}  // namespace weir::drill
