#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

// Boost 1.74 needs <utility> before its headers.
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "drill/proxy/proxy_faults.h"
#include "drill/proxy/toxic.h"
#include "drill/proxy/way_faults.h"

namespace weir::drill {

// What all connections of a loop look at. Its thread alone, but for the counts.
struct ProxyState {
  ProxyFaults faults;
  std::vector<Toxic> toxics;
  std::mt19937_64 random;
  std::atomic<std::uint64_t> request_bytes{0};
  std::atomic<std::uint64_t> reply_bytes{0};
  std::atomic<std::uint64_t> lost_bytes{0};
  std::atomic<std::uint64_t> resets{0};

  bool strikes(std::uint32_t percent) { return random() % 100 < percent; }
  Nanos some_of(Nanos most) {
    return most <= Nanos{0} ? Nanos{0}
                            : Nanos{static_cast<std::int64_t>(
                                  random() % (static_cast<std::uint64_t>(most.count()) + 1))};
  }
};

// One connection through the proxy. Handlers hold it, so that it lives until both sides are done.
//
// Threads:     its loop's alone.
class Relay : public std::enable_shared_from_this<Relay> {
 public:
  using Tcp = boost::asio::ip::tcp;

  Relay(boost::asio::io_context& io, Tcp::socket client, ProxyState& state);

  // Connects to the server and begins to pass bytes on; or takes what the client says, and says
  // nothing, where that is what it was told.
  void start(const Tcp::endpoint& target);
  // The faults have changed: what was stalled may go on. `hasten`: what is held waits no longer
  // than the new ones say.
  void changed(bool hasten);
  // Cuts both sides off, without what is held.
  void reset();

  bool over() const noexcept { return over_; }

 private:
  struct Piece {
    std::string bytes;
    std::chrono::steady_clock::time_point due;
  };
  struct Way {
    Way(boost::asio::io_context& io, Tcp::socket& source, Tcp::socket& sink, bool is_replies)
        : from(source), to(sink), replies(is_replies), timer(io), end_timer(io) {}
    Tcp::socket& from;
    Tcp::socket& to;
    const bool replies;
    WayFaults faults;
    bool plain = true;  // the faults do nothing
    boost::asio::steady_timer timer;
    boost::asio::steady_timer end_timer;  // of a connection whose end is set
    std::array<char, 64 * 1024> input;
    std::deque<Piece> held;
    std::size_t held_bytes = 0;
    std::size_t sent_of_first = 0;
    std::uint64_t counted = 0;  // bytes, since there is a most
    std::chrono::steady_clock::time_point last_due{};
    std::chrono::steady_clock::time_point not_before{};  // the next write
    bool reading = false;
    bool writing = false;
    bool waiting = false;
    bool lost = false;        // bytes are missing: nothing more is passed on
    bool ended = false;       // its sender has closed
    bool closed = false;      // and so have we
    bool cut_at_end = false;  // the connection is cut off once what is held is out
    bool full = false;        // and this way, it is closed
  };

  void settle(Way& way);
  bool struck_by(const Toxic& toxic);
  void set_end(Way& way);
  void hurry(Way& way);
  void read(Way& way);
  void on_read(Way& way, std::size_t size);
  bool pass_on(Way& way, std::size_t size);
  bool strike(Way& way, std::string& bytes);
  std::size_t next_size(const Way& way);
  Nanos pause_after(const Way& way, std::size_t size) const;
  void pump(Way& way);
  void write(Way& way, std::size_t size);
  void wait(Way& way, std::chrono::steady_clock::time_point until);
  void end(Way& way);
  void finish(bool with_reset);

  ProxyState& state_;
  Tcp::socket client_;
  Tcp::socket server_;
  Way requests_;
  Way replies_;
  std::vector<std::pair<std::uint64_t, bool>> drawn_;  // by toxic: whether it strikes
  bool over_ = false;
};

}  // namespace weir::drill
