#include "drill/run/playbook.h"

#include <algorithm>
#include <chrono>

namespace weir::drill {

using namespace std::chrono_literals;

Playbook::Playbook(const Scenario& scenario) : scenario_(scenario) {
  Nanos at{0};
  for (std::size_t i = 0; i < scenario.phases.size(); ++i) {
    const Phase& phase = scenario.phases[i];
    const Nanos end = at + phase.length;
    moves_.push_back({.at = at, .phase = i, .begins = true, .faulty = true});
    bool faulty = false;
    for (at += phase.flap; phase.flap > Nanos{0} && at < end; at += phase.flap) {
      moves_.push_back({.at = at, .phase = i, .begins = false, .faulty = faulty});
      faulty = !faulty;
    }
    at = end;
  }
  moves_.push_back(
      {.at = at, .phase = scenario.phases.size() - 1, .begins = false, .faulty = false});
}

void Playbook::make(const Move& move, FaultProxy& proxy) {
  const Phase& phase = scenario_.phases[move.phase];
  if (move.begins && move.phase == 0) bytes_before_ = proxy.counts().reply_bytes;
  if (move.begins && move.phase == 1) {
    const std::uint64_t passed = proxy.counts().reply_bytes - bytes_before_;
    usual_rate_ = passed * 1'000 / static_cast<std::uint64_t>(scenario_.phases[0].length / 1ms);
  }
  proxy.set(move.faulty ? faults_of(phase, proxy) : ProxyFaults{});
  if (move.faulty && phase.reset) proxy.reset_connections();
}

ProxyFaults Playbook::faults_of(const Phase& phase, const FaultProxy& proxy) const {
  ProxyFaults faults = phase.faults;
  if (phase.capacity_percent) {
    const std::uint64_t open = std::max<std::uint64_t>(proxy.counts().open, 1);
    faults.reply_rate =
        std::max<std::uint64_t>(usual_rate_ * *phase.capacity_percent / 100 / open, 1);
  }
  return faults;
}

}  // namespace weir::drill
