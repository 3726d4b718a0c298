#pragma once

#include <cstdint>
#include <string>

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
};

// What the server says once it serves: its addresses, and a line that can be typed to try it.
std::string ready_text(const ReadyFacts& facts, const policy::Model& model);

// A curl line that asks about the policy's first route with limits; empty where HTTP is off or no
// route has any.
std::string try_line(const Address& http, const policy::Model& model, Scheme scheme = Scheme::http);

}  // namespace weir::server
