#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace weir::fault {

// A network of this machine that can be parted: nodes are reached by doors, and whoever connects is
// told by the address that it connects from.
//
// While it is parted, what is sent across is lost and nobody is told: connections across stand and
// say nothing, and new ones are let in and say nothing. What stood across is cut off once it heals.
//
// Threads:     its own; members may be called from any.
class SplitNetwork {
 public:
  // Whom callers that are no node can reach while it is parted: 127.0.0.1 is theirs.
  enum class Callers : std::uint8_t { with_the_lone_one, with_all };

  SplitNetwork();
  ~SplitNetwork();
  SplitNetwork(const SplitNetwork&) = delete;
  SplitNetwork& operator=(const SplitNetwork&) = delete;

  // A port of 127.0.0.1 that leads to that one, which is the node's.
  std::uint16_t door_to(std::uint16_t port, std::size_t node);
  // Where that node connects from.
  static std::string address_of(std::size_t node) {
    return "127.0.0." + std::to_string(kFirstAddress + node);
  }

  // From now on that node hears no other, and is heard by none.
  void part(std::size_t lone, Callers callers);
  void heal();

 private:
  static constexpr std::size_t kFirstAddress = 10;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::fault
