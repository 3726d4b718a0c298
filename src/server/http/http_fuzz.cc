// Any bytes, in any pieces, at the HTTP door of a real Guard: every request gets one well-formed
// answer, and nothing else happens.
//
// The first byte of the input chooses the size of the pieces, the second how much the client takes
// at once.

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "guard/domain_limiter.h"
#include "server/http/check_handler.h"
#include "server/http/http_door.h"
#include "server/http/memory_stream.h"
#include "server/lane.h"
#include "weir/guard.h"
#include "weir/policy.h"

namespace weir::server::http {
namespace {

constexpr std::string_view kPolicy = R"(
inputs: [user]
trusted_proxies: [10.0.0.0/8]
unmatched: refuse
routes:
  login:
    match: {method: POST, path: /login}
    limits: ["5 per hour by ip", "20 per day by user"]
    protects: security
  search:
    match: {path: "/search/*"}
    limits: ["100 per minute by header:X-API-Key"]
    protects: capacity
    ceiling: 50 per second
)";

constexpr std::string_view kDomain = R"(
domain: shop
protects: capacity
ceiling: 50 per second
descriptors:
  - key: user
    metadata: {tier: free}
    rate_limit: {unit: minute, requests_per_unit: 2, name: per_user}
  - key: path
    value: /login*
    share_threshold: true
    rate_limit: {unit: day, requests_per_unit: 3}
)";

Guard& guard() {
  static Guard made = Guard::open(Policy::parse(std::string(kPolicy)).value()).value();
  return made;
}

guard::RateLimiter& limiter() {
  static Guard domains = Guard::open(Policy::parse(std::string(kDomain)).value()).value();
  static guard::DomainLimiter made(domains);
  return made;
}

// What was sent back is a row of whole responses, each with the length it says.
void expect_whole(std::string_view out) {
  while (!out.empty()) {
    if (!out.starts_with("HTTP/1.1 ")) std::abort();
    const std::size_t end = out.find("\r\n\r\n");
    if (end == std::string_view::npos) std::abort();
    const std::string_view head = out.substr(0, end);
    std::size_t length = 0;
    const std::size_t at = head.find("\r\nContent-Length: ");
    if (at == std::string_view::npos) {
      if (!head.starts_with("HTTP/1.1 100 ")) std::abort();
    } else if (head.find("\r\nContent-Length: ", at + 1) != std::string_view::npos) {
      std::abort();
    } else {
      length = std::strtoul(head.data() + at + sizeof "\r\nContent-Length:", nullptr, 10);
    }
    out.remove_prefix(end + 4);
    // The answer to HEAD says a length and has no body: a response or the end follows.
    if (out.size() < length || (length != 0 && out.starts_with("HTTP/1.1 "))) length = 0;
    out.remove_prefix(length);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t piece = data[0] + 1u;
  const std::size_t taken = data[1] * 4u + 16u;
  const std::string_view input(reinterpret_cast<const char*>(data) + 2, size - 2);

  Lane lane;
  MemoryClient client;
  HttpDoor door(std::make_unique<CheckHandler>(
      CheckHandler::Parts{guard(), limiter(), [] { return true; }}, lane));
  auto made = std::make_unique<MemoryStream>(client);
  MemoryStream* const stream = made.get();
  door.open(lane, std::move(made));
  for (std::size_t at = 0; at < input.size() && lane.connections() != 0; at += piece) {
    client.window = taken;
    stream->feed(input.substr(at, piece));
  }
  for (int i = 0; i < 100'000 && lane.connections() != 0 && !client.closed; ++i) {
    const std::size_t before = client.received.size();
    stream->take(1 << 20);
    if (client.received.size() == before) break;
  }
  if (lane.connections() != 0) stream->end();
  if (lane.connections() != 0) std::abort();  // a client that has ended must not stay
  expect_whole(client.received);
  return 0;
}

}  // namespace weir::server::http
