#include "drill/run/stage.h"

namespace weir::drill {

void act_by_proxy(FaultProxy& proxy, const Phase& phase) {
  if (phase.faults.door == ProxyFaults::Door::refuse) return;
  if (phase.state == ServerState::paused) proxy.set(ProxyFaults::stall());
  if (phase.state != ServerState::dead) return;
  proxy.set(ProxyFaults::refuse());
  if (phase.server == ServerAct::kill) proxy.reset_connections();
}

}  // namespace weir::drill
