#include "guard/circuit_hints.h"

#include <utility>

namespace weir::guard {

namespace redis = store::redis;

namespace {

// How soon one that died without a word is noticed: until then changes are found by looking.
constexpr Nanos kKeepalive = std::chrono::seconds(10);
// A server that lets nobody subscribe is not asked often.
constexpr Nanos kMostBackoff = std::chrono::seconds(30);

redis::NodeLink::Options link_options(CircuitHints::Options options) {
  redis::NodeLink::Options link;
  link.commands = {{"SUBSCRIBE", options.channel}};
  link.listens = true;
  link.bounds = {.bytes = std::size_t{1} << 16, .elements = 16};
  link.keepalive = kKeepalive;
  link.connect_timeout = options.connect_timeout;
  link.reply_timeout = options.connect_timeout;
  link.max_backoff = kMostBackoff;
  link.credentials = std::move(options.credentials);
  link.random_seed = options.random;
  return link;
}

bool same(const redis::Endpoint& a, const redis::Endpoint& b) {
  return a.host == b.host && a.port == b.port && a.unix_path == b.unix_path;
}

}  // namespace

CircuitHints::CircuitHints(Options options, std::unique_ptr<redis::AimedWire> wire, Clock& clock,
                           std::function<void(std::string_view)> hinted)
    : clock_(clock),
      hinted_(std::move(hinted)),
      wire_(std::move(wire)),
      link_(link_options(std::move(options)), "hints", *wire_, clock, *this) {}

void CircuitHints::silence() {
  link_.stop();
  listening_ = false;
  server_.reset();
}

void CircuitHints::tend(const std::optional<redis::Endpoint>& server) {
  if (!server) {
    if (server_) silence();
    return;
  }
  if (server_ && same(*server_, *server)) return;
  if (server_) silence();
  if (clock_.mono() < rests_until_) return;
  server_ = server;
  wire_->aim(*server);
  link_.start();
}

bool CircuitHints::flooded() {
  const MonoTime now = clock_.mono();
  if (now >= span_end_) {
    span_end_ = now + kSpan;
    in_span_ = 0;
  }
  if (++in_span_ <= kMost) return false;
  rests_until_ = now + kRest;
  return true;
}

void CircuitHints::on_message(redis::NodeLink&, const redis::Reply& message) {
  // "message", the channel, what was published; a pong has two.
  if (!message.is_flat_array(3)) return;
  if (flooded()) {
    silence();
    return;
  }
  const redis::ReplyNode& news = message.at(2);
  hinted_(news.type == redis::ReplyType::string ? message.text(news) : std::string_view());
}

}  // namespace weir::guard
