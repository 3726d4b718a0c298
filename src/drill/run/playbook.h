#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "drill/proxy/fault_proxy.h"
#include "drill/scenario/scenario.h"

namespace weir::drill {

// What is done to the proxy in front of a store over a scenario, move by move. Who plays it out
// brings the clock.
class Playbook {
 public:
  struct Move {
    Nanos at{0};  // since the beginning
    std::size_t phase = 0;
    bool begins = false;  // the phase begins; else it flaps, or the scenario is over
    bool faulty = true;   // the phase's faults hold from here on; else none
  };

  // `scenario` outlives this.
  explicit Playbook(const Scenario& scenario);

  // In the order of their times. The last one is the scenario's end, and takes every fault away.
  std::span<const Move> moves() const noexcept { return moves_; }

  // Does it. What a phase says of the store's capacity is measured by what passed in the first one.
  //
  // Requires:    every move in its order, at its time, each on a proxy to the same store.
  void make(const Move& move, FaultProxy& proxy);

 private:
  ProxyFaults faults_of(const Phase& phase, const FaultProxy& proxy) const;

  const Scenario& scenario_;
  std::vector<Move> moves_;
  std::uint64_t bytes_before_ = 0;
  std::uint64_t usual_rate_ = 0;  // bytes of replies a second, of all connections
};

}  // namespace weir::drill
