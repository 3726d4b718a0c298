#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "server/grpc/engine.h"
#include "server/grpc/service.h"
#include "server/grpc/status.h"
#include "weir/clock.h"

struct nghttp2_session;

namespace weir::server::grpc {

struct Call;
struct SessionCallbacks;

// A bucket of frames that a peer may send without bringing work.
class FrameBudget {
 public:
  FrameBudget(std::uint32_t burst, std::uint32_t per_second, MonoTime now) noexcept
      : burst_(burst), per_second_(per_second), left_(burst), filled_(now) {}

  // Takes one; false when there is none left.
  bool take(MonoTime now) noexcept;
  void give(std::uint32_t count) noexcept;

 private:
  std::uint32_t burst_;
  std::uint32_t per_second_;
  std::uint32_t left_;
  MonoTime filled_;
};

// Hears that a session has something to send that did not come of feed(), sweep() or drain().
class Waker {
 public:
  virtual ~Waker() = default;
  virtual void wake() = 0;
};

// One HTTP/2 connection with gRPC calls on it, without its socket: bytes go in by feed(), messages
// go to the services, bytes come out by pull().
//
// Guarantees:  no input ends the process; what a peer can make it hold is bounded by SessionLimits.
// Threads:     belongs to its engine's lane.
class Session {
 public:
  // `waker` outlives the session; null where nothing is answered later.
  Session(Engine& engine, MonoTime now, Waker* waker = nullptr);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  // Calls that are not finished are told to their services as gone.
  ~Session();

  // --- the connection's side ---

  // Takes bytes as they were received. False: nothing more is read; what pull() still gives is
  // sent, then the connection is closed.
  bool feed(std::string_view bytes, MonoTime now);
  // Appends what is to be sent, whole frames at a time, until `out` has about `max_bytes`.
  void pull(std::string& out, std::size_t max_bytes);
  bool wants_write() const noexcept;
  // Nothing more will be read or written: close.
  bool finished() const noexcept;
  // Ends what stands still and takes the next step of a drain. To be called about once a second.
  void sweep(MonoTime now);
  // Tells the peer to go elsewhere: calls in flight are answered, new ones are not taken. The
  // session finishes when the last one is answered.
  void drain(MonoTime now);
  Fault fault() const noexcept { return fault_; }
  std::size_t open_calls() const noexcept { return open_calls_; }
  std::size_t partial_bytes() const noexcept { return partial_bytes_; }

  // --- the services' side; a call that is gone makes them do nothing ---

  // Appends a message of `bytes` bytes to what the call will send, and returns room for it, to be
  // filled before anything else is called; null when the call is gone.
  char* append_message(CallId id, std::size_t bytes);
  // Sends what was appended; the call stays open.
  void flush(CallId id);
  // Sends what was appended, then ends the call. Of two, the first holds.
  void finish(CallId id, Code code, std::string_view message = {});
  // Bytes appended that have not left for the connection yet.
  std::size_t unsent(CallId id) const noexcept;
  // The time of the last feed() or sweep().
  MonoTime now() const noexcept { return now_; }

 private:
  friend struct SessionCallbacks;

  Call* find(CallId id) const noexcept;
  // Ends the connection with GOAWAY. Returns what a callback returns to stop nghttp2.
  int fail(Fault fault, std::uint32_t http2_error);
  int take_control();
  int take_reset();
  void on_ping_ack();
  void finish_drain();
  void notice_end();

  Call* open(CallId id);
  void close(Call& call);
  int on_header(Call& call, std::string_view name, std::string_view value);
  void on_headers_end(Call& call);
  void on_data(Call& call, std::string_view bytes, bool last);
  void on_message(Call& call, std::string_view message, bool last);
  void on_half_close(Call& call);
  void on_answer_sent(Call& call);
  void finish_cardinality(Call& call);
  void too_large(Call& call);
  void settle_partial(Call& call);

  void respond_http(Call& call, std::string_view status);
  void respond_trailers_only(Call& call);
  void respond(Call& call);
  void submit_trailers(Call& call);

  void link(Call& call) noexcept;
  void unlink(Call& call) noexcept;

  void wake();

  Engine& engine_;
  Waker* waker_;
  nghttp2_session* http2_ = nullptr;
  MonoTime now_;
  MonoTime began_;
  FrameBudget control_;
  FrameBudget resets_;
  Call* first_ = nullptr;  // open calls, oldest first
  Call* last_ = nullptr;
  std::size_t open_calls_ = 0;
  std::size_t partial_bytes_ = 0;
  std::size_t frame_left_ = 0;  // bytes of the DATA frame being read that have not come yet
  CallId highest_ = 0;
  std::string farewell_;  // sent after everything else
  Fault fault_ = Fault::none;
  bool attended_ = false;  // the connection's side is inside, and will pull
  bool greeted_ = false;   // the peer's SETTINGS arrived
  bool over_ = false;      // nothing more is read
  bool broken_ = false;    // the HTTP/2 library may not be asked any more
  bool draining_ = false;
  bool drained_ = false;  // the final GOAWAY is queued
  MonoTime drain_at_{};
};

}  // namespace weir::server::grpc
