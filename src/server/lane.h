#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "server/listener.h"
#include "server/stream.h"
#include "weir/clock.h"
#include "weir/result.h"

namespace boost::asio {
class io_context;
}

namespace weir::server {

class Door;

// One client's connection, made by a Door, owned by its Lane.
//
// Threads:     the lane's alone.
class Connection {
 public:
  virtual ~Connection() = default;
  // Comes about every LaneOptions::sweep: the place to close what was idle or slow for too long.
  // There is no timer a connection or a request.
  virtual void sweep(MonoTime now) = 0;
  // Take nothing new, answer what is in flight, then close. Comes at most once.
  virtual void drain() = 0;

 private:
  friend class Lane;
  std::size_t slot_ = 0;  // its place in the lane's table
};

struct LaneOptions {
  Clock* clock = nullptr;                // absent: the machine's
  std::size_t max_connections = 10'000;  // of all its listeners together; more are turned away
  Nanos sweep{std::chrono::milliseconds(250)};  // between two looks for idle and slow connections
  // Hears, in the lane's thread, the errno of an accept() that failed for want of descriptors or
  // memory. The listener rests for a moment and tries again.
  std::function<void(int)> on_accept_fault;
};

// What a lane has seen; readable from any thread.
struct LaneCounts {
  std::atomic<std::uint64_t> accepted{0};
  std::atomic<std::uint64_t> turned_away{0};    // over max_connections
  std::atomic<std::uint64_t> accept_faults{0};  // out of descriptors and the like
  std::atomic<std::uint64_t> open{0};
};

// One thread with one event loop: its own listeners, its own connections, one timer. Nothing passes
// between lanes on the way of a request.
//
// Threads:     start, stop, post, in_thread and counts may be called from any; the rest is the
// lane's own, or
//              anybody's while the lane does not run.
class Lane {
 public:
  explicit Lane(LaneOptions options = {});
  ~Lane();  // stop(), then closes everything
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Runs the loop in a thread of its own, until stop(). False: the system has no thread to give.
  bool start();
  // Runs the loop in the caller's thread, until stop().
  void run();
  // Ends the loop and joins the thread. What is open stays open until the lane is destroyed.
  void stop();

  // Has `work` done in the lane's thread, later. After stop() it is dropped, not done.
  void post(std::function<void()> work);
  bool in_thread() const noexcept;

  // When the event that is being handled began: one clock reading for each.
  MonoTime now() const noexcept { return now_; }
  // Reads the clock. Streams call it before they call their owner.
  void begin_event() noexcept { now_ = clock_.mono(); }
  Clock& clock() const noexcept { return clock_; }

  // Accepts on `socket` from now on and gives what comes to `door`. `transport` outlives the lane.
  void listen(ListenSocket socket, std::unique_ptr<Door> door,
              Transport& transport = plain_transport());

  // Keeps `connection` until release().
  void adopt(std::unique_ptr<Connection> connection);
  // Destroys it. The usual place is StreamOwner::on_closed.
  void release(Connection& connection);

  std::size_t connections() const noexcept;
  bool full() const noexcept { return connections() >= options_.max_connections; }
  const LaneCounts& counts() const noexcept { return counts_; }

  // Accepts what is already waiting, closes the listeners and drains every connection, also those
  // that come of it. `drained` is called in the lane's thread once none is left.
  void drain(std::function<void()> drained);
  bool draining() const noexcept { return draining_; }

  // Lets every connection look at the time; the timer's work, here for tests.
  void sweep();

  boost::asio::io_context& io() noexcept;

 private:
  friend class Listener;
  struct Loop;

  void arm_sweep();
  void report_drained();

  const LaneOptions options_;
  Clock& clock_;
  MonoTime now_{};
  bool draining_ = false;
  std::function<void()> drained_;
  LaneCounts counts_;
  std::unique_ptr<Loop> loop_;
};

}  // namespace weir::server
