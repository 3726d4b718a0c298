#pragma once

namespace weir::store::redis {

// A Lua script as it is shipped, and the SHA-1 by which Redis knows it.
struct Script {
  const char* sha;
  const char* text;
};

extern const Script kAskScript;
extern const Script kSelfTestScript;
extern const Script kNameTestScript;
extern const Script kBeatScript;
extern const Script kCircuitScript;
extern const Script kCircuitsScript;
extern const Script kLeaseScript;
extern const Script kEnvoyproxyScript;

}  // namespace weir::store::redis
