#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "guard/fleet_seat.h"
#include "guard/shared_store.h"
#include "policy/model.h"
#include "server/address.h"
#include "server/serve.h"

namespace weir::server {

enum class Scheme : std::uint8_t { http, https };

struct ReadyFacts {
  std::string policy_path;
  std::size_t lanes = 1;
  Address http;
  Address grpc;
  Address admin;
  ServeTls tls;
  std::string store;     // a line on the shared store, and this worker's part of it; empty: none
  std::string fallback;  // a line on the one that is asked while that one is away; empty: none
};

// "redis://10.0.0.5:6379/0 answers; worker host:/var/lib/weir holds a part, one of 3".
std::string store_line(const policy::StoreSpec& spec, bool answers, const guard::WorkerPart& part);

// "redis://10.0.1.5:6379/0 does not answer: connection refused".
std::string fallback_line(const policy::StoreSpec& spec,
                          const std::optional<guard::SharedStore::Fallback>& fallback);

// What the server says once it serves: its addresses, and a line that can be typed to try it.
std::string ready_text(const ReadyFacts& facts, const policy::Model& model);

// "2 routes", "domain shop with 3 limits", "1 route, 5 domains with 80 limits".
std::string policy_summary(const policy::Model& model);

// How many limits the model's domains hold.
std::size_t domain_limits(const policy::Model& model);

// A curl line that asks about the policy's first route with limits, or else its first domain's
// first limit; empty where HTTP is off or there is none.
std::string try_line(const Address& http, const policy::Model& model, Scheme scheme = Scheme::http);

}  // namespace weir::server
