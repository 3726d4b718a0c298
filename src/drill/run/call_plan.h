#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "drill/load/http_load.h"
#include "drill/scenario/scenario.h"
#include "policy/model.h"

namespace weir::drill {

// Who asks what, and when: a steady stream for each route that has limits, of clients of which the
// first is hostile.
class CallPlan {
 public:
  CallPlan(const policy::Model& model, const Scenario& scenario, double rate, std::uint32_t clients,
           std::uint64_t seed);

  const std::vector<const policy::Route*>& routes() const noexcept { return routes_; }
  void begin(MonoTime at) { begin_ = next_ = at; }
  // See HttpLoad::Next.
  bool next(HttpLoad::Call& call);

  static std::size_t route_of(std::uint64_t tag) noexcept { return tag >> 32U; }
  static std::uint32_t client_of(std::uint64_t tag) noexcept {
    return static_cast<std::uint32_t>(tag);
  }

 private:
  static constexpr std::uint32_t kHostility = 20;

  std::string body_of(std::size_t route, std::uint32_t client) const;
  std::uint32_t load_percent_at(Nanos passed) const;

  const Scenario& scenario_;
  const double rate_;  // of all routes together
  const std::uint32_t clients_;
  std::vector<const policy::Route*> routes_;
  std::vector<std::vector<std::string>> bodies_;  // [route][client]
  std::mt19937_64 random_;
  MonoTime begin_{};
  MonoTime next_{};
  std::size_t turn_ = 0;
};

// What client number `client` gives for a source.
std::string value_of(const std::string& source, std::uint32_t client);

}  // namespace weir::drill
