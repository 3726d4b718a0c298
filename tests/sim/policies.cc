#include "sim/policies.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace weir::sim {
namespace {

constexpr std::array<std::string_view, kTemperaments> kStores{
    "  breaker: {}\n  recovery: {}\n",
    "  breaker: {cooldown: 100ms, max_cooldown: 800ms, failures: 3}\n"
    "  recovery: {steps: 2, step: 100ms}\n"};

struct Numbers {
  int hourly, window, sliding, bucket, log, login, small, flood, metered, credits;
};
constexpr std::array<Numbers, kNumberSets> kNumbers{Numbers{100, 12, 16, 14, 12, 8, 3, 22, 12, 40},
                                                    Numbers{60, 20, 10, 20, 7, 12, 5, 22, 9, 60},
                                                    Numbers{140, 7, 24, 8, 18, 5, 2, 22, 17, 30}};

std::string text_of(std::size_t temperament, const Numbers& n) {
  const auto limit = [](int units, const std::string& per, const std::string& algorithm) {
    return "{requests: " + std::to_string(units) + ", per: " + per +
           ", by: [user], algorithm: " + algorithm + "}";
  };
  std::string text =
      "store:\n  url: redis://simulated\n  workers: {of: " + std::to_string(kWorkers) + "}\n";
  text += kStores[temperament];
  // Where there is one, the run says where it lies, and which ledger it is that all have.
  text += "journal: {folder: simulated, ledger: 'sqlite:simulated'}\ninputs: [user]\nroutes:\n";
  const auto add = [&text](const std::string& name, const std::string& limits,
                           const std::string& policy) {
    text += "  " + name + ":\n    limits: [" + limits + "]\n    " + policy + "\n";
  };
  const std::string bounded = "when_store_fails: bounded";
  add("hourly", limit(n.hourly, "1h", "fixed_window"), bounded);
  add("window", limit(n.window, "10s", "fixed_window"), bounded);
  add("sliding", limit(n.sliding, "10s", "sliding_window"), bounded);
  add("bucket", limit(n.bucket, "10s", "gcra"), bounded);
  add("log", limit(n.log, "10s", "sliding_log"), bounded);
  add("small", limit(n.small, "10s", "fixed_window"), bounded);
  add("login", limit(n.login, "10s", "gcra"), "when_store_fails: closed");
  add("strict", limit(n.login, "1h", "fixed_window"), "when_store_fails: closed");
  add("both", limit(n.bucket, "10s", "gcra") + ", " + limit(n.hourly, "1h", "fixed_window"),
      bounded);
  add("open", limit(n.window, "10s", "fixed_window"),
      "when_store_fails: open\n    ceiling: {requests: 6, per: 10s}");
  add("flood", limit(n.flood, "1h", "fixed_window"), bounded);
  const auto metered = [&limit](int units, const std::string& per) {
    std::string rule = limit(units, per, "fixed_window");
    return rule.insert(rule.size() - 1, ", meter: true");
  };
  const std::string settle = "when_store_fails: settle\n    overspend: {cap: ";
  add("metered", metered(n.metered, "10s"), settle + "9}");
  add("credits", limit(n.bucket, "10s", "gcra") + ", " + metered(n.credits, "1h"), settle + "13}");
  add("named", metered(n.metered, "10s"), settle + "9}");
  add("reserved", metered(n.credits, "10s"), settle + "13}");
  return text;
}

const std::array<std::array<Policy, kNumberSets>, kTemperaments>& all() {
  const auto parsed = [](std::size_t temperament, std::size_t numbers) {
    auto policy = Policy::parse(text_of(temperament, kNumbers[numbers]));
    if (!policy) {
      std::fprintf(stderr, "%s\n", policy.error().message.c_str());
      std::abort();
    }
    return *policy;
  };
  static const std::array<std::array<Policy, kNumberSets>, kTemperaments> policies{
      {{parsed(0, 0), parsed(0, 1), parsed(0, 2)}, {parsed(1, 0), parsed(1, 1), parsed(1, 2)}}};
  return policies;
}

}  // namespace

std::uint32_t fleet_size() {
  const char* text = std::getenv("WEIR_SIM_WORKERS");
  if (text == nullptr) return 4;
  const unsigned long size = std::strtoul(text, nullptr, 10);
  if (size >= 1 && size <= 64) return static_cast<std::uint32_t>(size);
  std::fprintf(stderr, "WEIR_SIM_WORKERS=%s: a fleet has from 1 to 64 workers\n", text);
  std::exit(2);
}

const Policy& policy(std::size_t temperament, std::size_t numbers) {
  return all()[temperament][numbers];
}

const policy::Route& route(std::size_t numbers, std::size_t place) {
  return all()[0][numbers].model().routes[place];
}

std::size_t routes() {
  return all()[0][0].model().routes.size();
}

std::size_t flood_route() {
  return routes() - 5;
}

std::size_t named_route() {
  return routes() - 2;
}

std::size_t reserved_route() {
  return routes() - 1;
}

bool is_metered(std::size_t place) {
  return place > flood_route();
}

bool is_plainly_metered(std::size_t place) {
  return is_metered(place) && place < named_route();
}

}  // namespace weir::sim
