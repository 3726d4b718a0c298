#include "store/redis/topology/cluster_watch.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace weir::store::redis {
namespace {

constexpr std::size_t kSlotsReply = 0;
constexpr std::size_t kInfoReply = 1;
// A map of single slots, each with a few nodes of some hundred bytes.
constexpr ReplyReader::Bounds kBounds{.bytes = std::size_t{16} << 20, .elements = kSlots};

std::uint32_t owned(const SlotMap& map) {
  std::uint32_t slots = 0;
  for (const ClusterMaster& master : map.masters) slots += master.slots;
  return slots;
}

NodeLink::Options link_options(const ClusterWatch::Options& options, std::uint64_t seed) {
  return {.commands = {{"CLUSTER", "SLOTS"}, {"CLUSTER", "INFO"}},
          .bounds = kBounds,
          .poll = options.poll,
          .connect_timeout = options.patience,
          .reply_timeout = options.patience,
          .credentials = options.credentials,
          .random_seed = seed};
}

}  // namespace

ClusterWatch::ClusterWatch(Options options, const WireMaker& wires, EndpointMaker endpoints,
                           Clock& clock, Listener& listener)
    : options_(std::move(options)),
      endpoints_(std::move(endpoints)),
      listener_(listener),
      known_(options_.seeds) {
  NodeLink::Listener& hears = *this;
  for (std::size_t i = 0; i < kScouts; ++i) {
    Scout scout;
    scout.wire = wires();
    scout.link = std::make_unique<NodeLink>(link_options(options_, options_.random_seed + i), "",
                                            *scout.wire, clock, hears);
    scouts_.push_back(std::move(scout));
  }
  // Workers begin with different nodes.
  next_ = options_.random_seed % known_.size();
}

ClusterWatch::~ClusterWatch() {
  stop();
}

void ClusterWatch::start() {
  for (Scout& scout : scouts_) {
    send_elsewhere(scout);
    scout.link->start();
  }
}

void ClusterWatch::stop() {
  for (Scout& scout : scouts_) scout.link->stop();
}

void ClusterWatch::refresh() {
  for (Scout& scout : scouts_) scout.link->refresh();
}

ClusterWatch::Scout& ClusterWatch::scout_of(const NodeLink& link) {
  return *std::find_if(scouts_.begin(), scouts_.end(),
                       [&](const Scout& scout) { return scout.link.get() == &link; });
}

bool ClusterWatch::taken(const HostPort& node) const {
  return std::any_of(scouts_.begin(), scouts_.end(),
                     [&](const Scout& scout) { return scout.node == node; });
}

// To a node that no other scout asks, where there is one.
void ClusterWatch::send_elsewhere(Scout& scout) {
  scout.node = {};
  for (std::size_t tried = 0; tried < known_.size(); ++tried) {
    next_ = (next_ + 1) % known_.size();
    if (!taken(known_[next_])) break;
  }
  scout.node = known_[next_ % known_.size()];
  scout.wire->aim(endpoints_(scout.node));
}

void ClusterWatch::on_reply(NodeLink& link, std::size_t place, const Reply& reply) {
  Scout& scout = scout_of(link);
  if (place == kSlotsReply) {
    scout.read = read_slots(reply, scout.node);
    scout.trouble.clear();
    scout.let_in = true;
    if (reply.root().type == ReplyType::error) {
      scout.trouble = reply.error();
    } else if (!scout.read) {
      scout.trouble = "gives no slot map";
    } else if (scout.read->masters.empty()) {
      scout.trouble = "knows no master with slots";
      scout.read.reset();
    }
  } else if (place == kInfoReply) {
    scout.health = read_cluster_info(reply).value_or(ClusterHealth{});
  }
}

void ClusterWatch::on_round(NodeLink& link) {
  Scout& scout = scout_of(link);
  scout.map = std::exchange(scout.read, std::nullopt);
  believe();
}

void ClusterWatch::on_down(NodeLink& link) {
  Scout& scout = scout_of(link);
  scout.map.reset();
  scout.read.reset();
  const std::string& said = link.last_error_text();
  scout.let_in =
      link.last_error() == nullptr || link.last_error()->error_class != ErrorClass::misconfigured;
  scout.trouble =
      said.empty() && link.last_error() != nullptr ? std::string(link.last_error()->meaning) : said;
  believe();
  send_elsewhere(scout);
}

void ClusterWatch::believe() {
  const Scout* best = nullptr;
  for (const Scout& scout : scouts_) {
    if (!scout.map) continue;
    const auto rank = [&](const Scout& of) {
      // One that is cut off may count epochs by itself, and says that its cluster has failed.
      return std::tuple(of.health.ok, of.health.epoch, owned(*of.map), &of == guide_);
    };
    if (best == nullptr || rank(scout) > rank(*best)) best = &scout;
  }
  guide_ = best;
  if (best == nullptr) {
    say_no_map();
    return;
  }
  no_map_.clear();
  if (map_ == best->map) {
    listener_.on_same_map();
    return;
  }
  map_ = best->map;
  known_.clear();
  for (const ClusterMaster& master : map_->masters) {
    known_.push_back(master.node.address);
    for (const ClusterNode& replica : master.replicas) known_.push_back(replica.address);
  }
  for (const HostPort& seed : options_.seeds) {
    if (std::find(known_.begin(), known_.end(), seed) == known_.end()) known_.push_back(seed);
  }
  listener_.on_map(*map_);
}

void ClusterWatch::say_no_map() {
  std::string text;
  bool not_cluster = false;
  bool let_in = true;
  for (const Scout& scout : scouts_) {
    if (scout.trouble.empty()) return;  // it may still give one
    if (text.find(scout.node.text()) != std::string::npos) continue;
    text += (text.empty() ? "" : "; ") + scout.node.text() + ": " + scout.trouble;
    let_in &= scout.let_in;
    not_cluster |= scout.trouble.find("cluster support disabled") != std::string::npos;
  }
  if (text == no_map_) return;
  no_map_ = text;
  listener_.on_no_map(not_cluster ? LocalFault::no_cluster
                      : let_in    ? LocalFault::no_slot_map
                                  : LocalFault::not_let_in,
                      text);
}

}  // namespace weir::store::redis
