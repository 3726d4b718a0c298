#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "drill/proxy/proxy_faults.h"
#include "drill/proxy/toxic.h"
#include "weir/result.h"

namespace weir::drill {

// Stands between a client and a TCP server, and does to their bytes what it is told, from one
// moment to the next. Knows no protocol.
//
// Guarantees:  bytes of one direction of one connection keep their order, and none is ever altered;
//              at most kMaxHeld bytes of each are held, beyond which its sender is made to wait;
//              a connection beyond kMaxOpen (its loop's part of it) is reset at once.
// Threads:     its loops' own; members may be called from any other.
class FaultProxy {
 public:
  static constexpr std::size_t kMaxHeld = 4U << 20;
  static constexpr std::size_t kMaxOpen = 4'096;

  struct Options {
    std::string listen = "127.0.0.1:0";  // numeric; port 0 takes a free one
    std::string target;                  // host:port
    std::uint64_t seed = 1;              // of jitter and percent
    // Threads that serve, each its connections in turn; 1 to 16. With one, all draws come in one
    // order.
    std::uint32_t loops = 1;
  };
  struct Counts {
    std::uint64_t connections = 0;  // accepted so far
    std::uint64_t open = 0;         // that stand now
    std::uint64_t request_bytes = 0;
    std::uint64_t reply_bytes = 0;
    std::uint64_t lost_bytes = 0;  // dropped, or held when their connection ended
    std::uint64_t resets = 0;      // connections that this proxy cut off
  };

  // Errors:      invalid_argument (an address; a target that is this proxy itself); unavailable (it
  //              cannot be listened on, or the name has no address).
  static Result<std::unique_ptr<FaultProxy>> start(const Options& options);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  std::uint16_t port() const noexcept;
  // Whether what it is to pass on goes to the other one, which may be itself.
  bool leads_to(const FaultProxy& other) const;

  // Holds from the return of this call on, for connections that stand and for new ones.
  void set(const ProxyFaults& faults);
  ProxyFaults faults() const;
  // The same for faults that have names, and that strike some connections. Besides those above.
  void set_toxics(const std::vector<Toxic>& toxics);

  // Connections made from now on go there; those that stand stay where they are, as they do when a
  // name or a service address moves.
  //
  // Errors:      as start().
  Result<void> retarget(const std::string& target);
  // Cuts off every connection that stands.
  void reset_connections();

  Counts counts() const;

 private:
  class Impl;
  explicit FaultProxy(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::drill
