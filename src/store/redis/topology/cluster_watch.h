#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/redis/topology/node_link.h"
#include "store/redis/topology/slot_map.h"
#include "store/redis/wire.h"

namespace weir::store::redis {

// Keeps a cluster's slot map: asks a few of its nodes, again and again, and others where those are
// gone. The nodes of the URL are where it begins, and where it comes back to, by name, when all
// that it knows are gone.
//
// Of several that answer those that say that their cluster works are believed before those that do
// not, which may be alone on their side of a cut and count epochs by themselves; of those the one
// with the newest configuration, of those the one that knows the owners of the most slots (one
// that is between two masters has none for theirs), and of those the one that was believed last.
//
// Threads:     the wires' loop alone.
class ClusterWatch final : private NodeLink::Listener {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    // Another map than the last one.
    virtual void on_map(const SlotMap& map) = 0;
    // It was read again, and is the same.
    virtual void on_same_map() {}
    // Nobody gives one: told when it begins to be so, and when the reason changes.
    virtual void on_no_map(LocalFault why, const std::string& text) = 0;
  };
  using WireMaker = std::function<std::unique_ptr<AimedWire>()>;
  // How a node at an address is spoken to.
  using EndpointMaker = std::function<Endpoint(const HostPort&)>;

  struct Options {
    std::vector<HostPort> seeds;
    Nanos patience{std::chrono::milliseconds(200)};  // to connect to one, and for its answer
    Nanos poll{std::chrono::seconds(1)};
    std::function<Result<Credentials>()> credentials;
    std::uint64_t random_seed = 0;
  };
  static constexpr std::size_t kScouts = 3;

  ClusterWatch(Options options, const WireMaker& wires, EndpointMaker endpoints, Clock& clock,
               Listener& listener);
  ~ClusterWatch() override;
  ClusterWatch(const ClusterWatch&) = delete;
  ClusterWatch& operator=(const ClusterWatch&) = delete;

  void start();
  void stop();
  // Something said that the map is out of date. Whoever calls it sees to it that a fleet does not
  // do so all at once.
  void refresh();

 private:
  struct Scout {
    std::unique_ptr<AimedWire> wire;
    std::unique_ptr<NodeLink> link;
    HostPort node;
    std::optional<SlotMap> read;  // of the round that is under way
    std::optional<SlotMap> map;   // of the last round; absent: it does not answer
    ClusterHealth health;
    std::string trouble;  // why it gives no map
    bool let_in = true;   // nobody has to change anything for it to do so
  };

  void on_reply(NodeLink& link, std::size_t place, const Reply& reply) override;
  void on_round(NodeLink& link) override;
  void on_down(NodeLink& link) override;

  Scout& scout_of(const NodeLink& link);
  bool taken(const HostPort& node) const;
  void send_elsewhere(Scout& scout);
  void believe();
  void say_no_map();

  const Options options_;
  const EndpointMaker endpoints_;
  Listener& listener_;
  std::vector<Scout> scouts_;
  std::vector<HostPort> known_;  // nodes of the map, and then the seeds
  std::size_t next_ = 0;         // of `known_`, to be tried
  const Scout* guide_ = nullptr;
  std::optional<SlotMap> map_;
  std::string no_map_;  // what was said last; empty: there is one
};

}  // namespace weir::store::redis
