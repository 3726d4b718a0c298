#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/redis/topology/locator.h"
#include "store/redis/topology/master_view.h"
#include "store/redis/topology/node_link.h"

namespace weir::store::redis {

// Asks sentinels where a master is.
//
// Each of them is asked, again and again: the newest configuration among those that answered holds,
// so that one that is cut off beside the old master is not believed once any other answers. What a
// sentinel publishes is only a hint to ask at once.
//
// Guarantees:  locating waits for a majority of the sentinels, or for all that can be reached.
class SentinelWatch final : public Locator, private NodeLink::Listener {
 public:
  // A sentinel, by two ways: what subscribes cannot ask.
  struct Sentinel {
    std::string name;  // for messages
    Wire& asks;
    Wire& listens;
  };
  struct Options {
    std::string master;
    Nanos patience{std::chrono::milliseconds(100)};  // to connect to one, and for its answer
    Nanos poll{std::chrono::seconds(1)};
    std::function<Result<Credentials>()> credentials;
    std::uint64_t random_seed = 0;
  };

  SentinelWatch(Options options, const std::vector<Sentinel>& sentinels, Clock& clock);
  ~SentinelWatch() override;
  SentinelWatch(const SentinelWatch&) = delete;
  SentinelWatch& operator=(const SentinelWatch&) = delete;

  void bind(Locator::Listener* listener) override { listener_ = listener; }
  // The first begins to watch.
  void locate() override;
  void forget() override { locating_ = false; }
  void stop();

 private:
  struct Peer {
    std::unique_ptr<NodeLink> asks;
    std::unique_ptr<NodeLink> listens;
    std::optional<std::uint64_t> epoch;  // of the round that is under way
    std::optional<MasterView> view;      // absent: it cannot be asked, or knows no such master
    bool unknown = false;                // it knows no such master
    bool answers = false;                // its last round was complete
    bool heard = false;                  // since locate()
  };

  void on_reply(NodeLink& link, std::size_t place, const Reply& reply) override;
  void on_message(NodeLink& link, const Reply& message) override;
  void on_round(NodeLink& link) override;
  void on_down(NodeLink& link) override;

  Peer* asker(const NodeLink& link);
  std::optional<MasterView> best() const;
  std::size_t peers_that_name(const HostPort& address) const;
  void judge();
  void conclude();
  void look_for_a_move();

  const Options options_;
  Locator::Listener* listener_ = nullptr;
  std::vector<Peer> peers_;
  bool watching_ = false;
  bool locating_ = false;
  std::optional<MasterView> told_;  // what was located last; absent: nothing could be
};

}  // namespace weir::store::redis
