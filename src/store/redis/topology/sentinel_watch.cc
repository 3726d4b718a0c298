#include "store/redis/topology/sentinel_watch.h"

#include <algorithm>
#include <utility>

namespace weir::store::redis {
namespace {

constexpr std::size_t kEpoch = 0;
constexpr std::size_t kAddress = 1;
// Of a subscription, which only hints.
constexpr Nanos kListenPatience = std::chrono::seconds(1);

NodeLink::Options asking(const SentinelWatch::Options& options, std::uint64_t seed) {
  return {.commands = {{"SENTINEL", "MASTER", options.master},
                       {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", options.master}},
          .bounds = {},
          .poll = options.poll,
          .connect_timeout = options.patience,
          .reply_timeout = options.patience,
          .credentials = options.credentials,
          .random_seed = seed};
}

NodeLink::Options listening(const SentinelWatch::Options& options, std::uint64_t seed) {
  return {.commands = {{"SUBSCRIBE", "+switch-master"}},
          .listens = true,
          .bounds = {},
          .connect_timeout = kListenPatience,
          .reply_timeout = kListenPatience,
          .credentials = options.credentials,
          .random_seed = seed};
}

}  // namespace

SentinelWatch::SentinelWatch(Options options, const std::vector<Sentinel>& sentinels, Clock& clock)
    : options_(std::move(options)) {
  std::uint64_t seed = options_.random_seed;
  NodeLink::Listener& listener = *this;
  for (const Sentinel& sentinel : sentinels) {
    Peer peer;
    peer.asks = std::make_unique<NodeLink>(asking(options_, ++seed), sentinel.name, sentinel.asks,
                                           clock, listener);
    peer.listens = std::make_unique<NodeLink>(listening(options_, ++seed), sentinel.name,
                                              sentinel.listens, clock, listener);
    peers_.push_back(std::move(peer));
  }
}

SentinelWatch::~SentinelWatch() {
  stop();
}

void SentinelWatch::stop() {
  watching_ = locating_ = false;
  for (Peer& peer : peers_) {
    peer.asks->stop();
    peer.listens->stop();
  }
}

SentinelWatch::Peer* SentinelWatch::asker(const NodeLink& link) {
  const auto found = std::find_if(peers_.begin(), peers_.end(),
                                  [&](const Peer& peer) { return peer.asks.get() == &link; });
  return found == peers_.end() ? nullptr : &*found;
}

void SentinelWatch::locate() {
  locating_ = true;
  // One that could not be reached a moment ago is tried again, but waited for only where there is
  // no other.
  const bool all_down =
      std::all_of(peers_.begin(), peers_.end(), [](const Peer& p) { return p.asks->down(); });
  for (Peer& peer : peers_) {
    peer.heard = watching_ && !all_down && peer.asks->down();
    if (watching_) peer.asks->refresh();
  }
  if (std::exchange(watching_, true)) return;
  for (Peer& peer : peers_) {
    peer.asks->start();
    peer.listens->start();
  }
}

void SentinelWatch::on_reply(NodeLink& link, std::size_t place, const Reply& reply) {
  Peer* peer = asker(link);
  if (peer == nullptr) return;
  if (place == kEpoch) {
    peer->epoch = read_config_epoch(reply);
    peer->unknown = reply.root().type == ReplyType::error;
  }
  if (place != kAddress) return;
  const auto address = read_master_address(reply);
  peer->view.reset();
  if (address && peer->epoch) peer->view = MasterView{*address, *peer->epoch};
}

void SentinelWatch::on_message(NodeLink&, const Reply& message) {
  if (!tells_of_switch(message, options_.master)) return;
  for (Peer& peer : peers_) peer.asks->refresh();
}

void SentinelWatch::on_round(NodeLink& link) {
  Peer* peer = asker(link);
  if (peer == nullptr) return;
  peer->answers = peer->heard = true;
  judge();
}

void SentinelWatch::on_down(NodeLink& link) {
  Peer* peer = asker(link);
  if (peer == nullptr) return;
  peer->view.reset();
  peer->answers = false;
  peer->heard = true;
  judge();
}

std::optional<MasterView> SentinelWatch::best() const {
  std::optional<MasterView> found;
  for (const Peer& peer : peers_) {
    if (peer.view && (!found || peer.view->epoch > found->epoch)) found = peer.view;
  }
  return found;
}

void SentinelWatch::judge() {
  if (!locating_) {
    look_for_a_move();
    return;
  }
  const auto knowing = std::count_if(peers_.begin(), peers_.end(),
                                     [](const Peer& p) { return p.heard && p.view.has_value(); });
  const bool all_heard =
      std::all_of(peers_.begin(), peers_.end(), [](const Peer& p) { return p.heard; });
  if (all_heard || 2 * static_cast<std::size_t>(knowing) > peers_.size()) conclude();
}

void SentinelWatch::conclude() {
  locating_ = false;
  told_ = best();
  if (listener_ == nullptr) return;
  if (told_) {
    listener_->on_located(HostPort(told_->address));
    return;
  }
  const bool unknown = std::any_of(peers_.begin(), peers_.end(),
                                   [](const Peer& p) { return p.answers && p.unknown; });
  const bool refused = std::any_of(peers_.begin(), peers_.end(), [](const Peer& p) {
    const ErrorRow* why = p.asks->last_error();
    return !p.answers && why != nullptr && why->error_class == ErrorClass::misconfigured;
  });
  std::string text;
  for (const Peer& peer : peers_) {
    text += (text.empty() ? "" : "; ") + peer.asks->name() + ": ";
    if (peer.answers) {
      text += peer.unknown ? "knows no master named '" + options_.master + "'"
                           : std::string("does not answer as a sentinel does");
    } else if (const ErrorRow* why = peer.asks->last_error()) {
      text += peer.asks->last_error_text().empty() ? std::string(why->meaning)
                                                   : peer.asks->last_error_text();
    }
  }
  listener_->on_not_located(unknown   ? LocalFault::unknown_master
                            : refused ? LocalFault::not_let_in
                                      : LocalFault::no_sentinel,
                            text);
}

std::size_t SentinelWatch::peers_that_name(const HostPort& address) const {
  return static_cast<std::size_t>(std::count_if(peers_.begin(), peers_.end(), [&](const Peer& p) {
    return p.view.has_value() && p.view->address == address;
  }));
}

// A newer configuration names another one than was told, or there is one where there was none. An
// older one is what a sentinel says that has not heard yet, unless most say so: then they were set
// up anew.
void SentinelWatch::look_for_a_move() {
  if (!watching_ || listener_ == nullptr) return;
  const auto view = best();
  if (!view || (told_ && view->address == told_->address)) return;
  if (told_ && view->epoch <= told_->epoch && 2 * peers_that_name(view->address) <= peers_.size()) {
    return;
  }
  told_ = view;
  listener_->on_moved();
}

}  // namespace weir::store::redis
