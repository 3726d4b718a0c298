#include "store/redis/topology/slot_map.h"

#include <algorithm>
#include <map>

namespace weir::store::redis {
namespace {

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Walks a nested reply from its first element on.
class Walk {
 public:
  explicit Walk(const Reply& reply) : reply_(reply) {}

  // Absent: there is nothing more.
  const ReplyNode* next() { return at_ + 1 < reply_.size() ? &reply_.at(at_++) : nullptr; }
  std::string_view text(const ReplyNode& node) const { return reply_.text(node); }
  // Passes over what is below the node that next() gave.
  bool skip(const ReplyNode& node) {
    if (node.type != ReplyType::array) return true;
    for (std::uint32_t i = 0; i < node.elements; ++i) {
      const ReplyNode* below = next();
      if (below == nullptr || !skip(*below)) return false;
    }
    return true;
  }

 private:
  const Reply& reply_;
  std::size_t at_ = 0;
};

bool is_text(const ReplyNode& node) {
  return node.type == ReplyType::string || node.type == ReplyType::status;
}

// One node: host, port, id, and whatever else. False: not one.
bool read_node(Walk& walk, const HostPort& asked, ClusterNode& node, bool& reachable) {
  const ReplyNode* whole = walk.next();
  if (whole == nullptr || whole->type != ReplyType::array || whole->elements < 2) return false;
  const ReplyNode* host = walk.next();
  const ReplyNode* port = walk.next();
  if (host == nullptr || port == nullptr || port->type != ReplyType::integer) return false;
  if (host->type != ReplyType::nil && !is_text(*host)) return false;
  if (is_text(*host)) node.address.host = walk.text(*host);
  if (node.address.host.empty()) node.address.host = asked.host;
  reachable = node.address.host != "?" && port->integer > 0 && port->integer <= UINT16_MAX;
  if (reachable) node.address.port = static_cast<std::uint16_t>(port->integer);
  for (std::uint32_t i = 2; i < whole->elements; ++i) {
    const ReplyNode* more = walk.next();
    if (more == nullptr) return false;
    if (i == 2 && is_text(*more)) node.id = walk.text(*more);
    if (!walk.skip(*more)) return false;
  }
  // Before version 4 nodes had no id here.
  if (node.id.empty()) node.id = node.address.text();
  return true;
}

struct Range {
  std::size_t first = 0;
  std::size_t last = 0;
};

}  // namespace

std::optional<SlotMap> read_slots(const Reply& reply, const HostPort& asked) {
  if (reply.root().type != ReplyType::array) return std::nullopt;
  struct Owned {
    ClusterMaster master;
    std::vector<Range> ranges;
  };
  std::map<std::string, Owned> owned;
  Walk walk(reply);
  for (std::uint32_t i = 0; i < reply.root().elements; ++i) {
    const ReplyNode* entry = walk.next();
    if (entry == nullptr || entry->type != ReplyType::array || entry->elements < 2) {
      return std::nullopt;
    }
    const ReplyNode* first = walk.next();
    const ReplyNode* last = walk.next();
    if (first == nullptr || last == nullptr || first->type != ReplyType::integer ||
        last->type != ReplyType::integer || first->integer < 0 || last->integer < first->integer ||
        last->integer >= kSlots) {
      return std::nullopt;
    }
    const Range range{static_cast<std::size_t>(first->integer),
                      static_cast<std::size_t>(last->integer)};
    Owned* of = nullptr;
    for (std::uint32_t n = 2; n < entry->elements; ++n) {
      ClusterNode node;
      bool reachable = false;
      if (!read_node(walk, asked, node, reachable)) return std::nullopt;
      if (n == 2 && reachable) {
        of = &owned[node.id];
        of->master.node = std::move(node);
        of->ranges.push_back(range);
      } else if (n > 2 && of != nullptr && reachable) {
        std::vector<ClusterNode>& replicas = of->master.replicas;
        if (std::find(replicas.begin(), replicas.end(), node) == replicas.end()) {
          replicas.push_back(std::move(node));
        }
      }
    }
  }
  SlotMap map;
  map.owner.assign(kSlots, SlotMap::kNobody);
  for (auto& [id, of] : owned) {
    const auto place = static_cast<std::uint16_t>(map.masters.size());
    ClusterMaster& master = map.masters.emplace_back(std::move(of.master));
    std::sort(master.replicas.begin(), master.replicas.end(),
              [](const ClusterNode& a, const ClusterNode& b) { return a.id < b.id; });
    for (const Range& range : of.ranges) {
      for (std::size_t slot = range.first; slot <= range.last; ++slot) {
        if (map.owner[slot] != SlotMap::kNobody) return std::nullopt;
        map.owner[slot] = place;
        ++master.slots;
        master.highest_slot = std::max(master.highest_slot, static_cast<std::uint16_t>(slot));
      }
    }
  }
  return map;
}

std::optional<ClusterHealth> read_cluster_info(const Reply& reply) {
  if (!is_text(reply.root())) return std::nullopt;
  ClusterHealth health;
  bool said = false;
  std::string_view rest = reply.text(reply.root());
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    constexpr std::string_view kState = "cluster_state:";
    constexpr std::string_view kEpoch = "cluster_current_epoch:";
    if (line.starts_with(kState)) {
      said = true;
      health.ok = line.substr(kState.size()) == "ok";
    } else if (line.starts_with(kEpoch)) {
      health.epoch = number_in<std::uint64_t>(line.substr(kEpoch.size())).value_or(0);
    }
  }
  if (!said) return std::nullopt;
  return health;
}

std::optional<Redirect> read_redirect(std::string_view error) {
  Redirect redirect;
  if (error.starts_with("ASK ")) {
    redirect.asking = true;
    error.remove_prefix(4);
  } else if (error.starts_with("MOVED ")) {
    error.remove_prefix(6);
  } else {
    return std::nullopt;
  }
  const std::size_t space = error.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const auto slot = number_in<std::uint16_t>(error.substr(0, space));
  const std::string_view where = error.substr(space + 1);
  // An IPv6 address stands there without brackets: the port is after the last colon.
  const std::size_t colon = where.rfind(':');
  if (!slot || *slot >= kSlots || colon == std::string_view::npos) return std::nullopt;
  const auto port = port_in(where.substr(colon + 1));
  if (!port) return std::nullopt;
  const std::string_view host = where.substr(0, colon);
  if (host == "?") return std::nullopt;  // the node does not know what the other one is called
  redirect.slot = *slot;
  redirect.where = {std::string(host), *port};
  return redirect;
}

}  // namespace weir::store::redis
