#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/clock.h"

struct nghttp2_hd_inflater;

namespace weir::drill {

// One answered call.
struct CallReply {
  std::uint64_t tag = 0;
  int http_status = 0;
  int grpc_status = -1;   // -1: the stream ended without one
  std::string_view body;  // as received: prefix and message; valid during the callback
};

// What every call of a caller says.
struct CallTarget {
  std::string authority;
  std::string path;
  std::optional<Nanos> timeout;  // grpc-timeout
};

// The client's side of one HTTP/2 connection that makes the same gRPC call again and again, without
// its socket. Made for load: frames are written by hand, and the header block is the same each
// time.
class H2Caller {
 public:
  using OnReply = std::function<void(const CallReply&)>;

  H2Caller(const CallTarget& target, std::uint32_t max_calls);
  H2Caller(const H2Caller&) = delete;
  H2Caller& operator=(const H2Caller&) = delete;
  ~H2Caller();

  // What is sent first.
  void start(std::string& out) const;
  // Whether a call with so many bytes of body can begin now.
  bool can_call(std::size_t body) const noexcept;
  // Requires: can_call(). `body` is framed: prefix and message.
  void call(std::string_view body, std::uint64_t tag, std::string& out);
  // Takes what was received; appends what is to be sent in return. False: the connection is over.
  bool feed(std::string_view bytes, std::string& out, const OnReply& on_reply);

  std::size_t in_flight() const noexcept { return in_flight_; }
  // Why feed() gave up.
  const std::string& fault() const noexcept { return fault_; }

 private:
  struct Stream {
    std::uint32_t id = 0;  // 0: nobody's
    std::uint64_t tag = 0;
    int http_status = 0;
    int grpc_status = -1;
    std::string body;
  };
  struct Status {
    int http = 0;
    int grpc = -1;
  };

  // Streams that are open at once lie this close together, or new ones wait.
  static constexpr std::size_t kPlaces = 1U << 14U;

  Stream& place_of(std::uint32_t id) { return streams_[(id >> 1U) % kPlaces]; }
  const Stream& place_of(std::uint32_t id) const { return streams_[(id >> 1U) % kPlaces]; }
  bool on_frame(std::uint8_t type, std::uint8_t flags, std::uint32_t id, std::string_view payload,
                std::string& out, const OnReply& on_reply);
  bool on_headers(std::uint8_t flags, std::uint32_t id, std::string_view block,
                  const OnReply& on_reply);
  void on_data(std::uint8_t flags, std::uint32_t id, std::string_view bytes, std::string& out,
               const OnReply& on_reply);
  bool on_settings(std::uint8_t flags, std::string_view payload, std::string& out);
  bool inflate(std::string_view block, Status& status);
  void finish(Stream& stream, const OnReply& on_reply);
  bool give_up(std::string why);

  std::uint32_t max_calls_;
  std::string first_block_;  // puts the headers into the table
  std::string block_;        // of every later call
  bool block_sent_ = false;
  nghttp2_hd_inflater* inflater_ = nullptr;
  // The last header blocks that changed no table, and what they said: those of an answer's begin
  // and end.
  struct Known {
    std::string block;
    Status status;
  };
  Known known_[2];
  std::size_t next_known_ = 0;
  std::vector<Stream> streams_;
  std::size_t in_flight_ = 0;
  std::uint32_t next_id_ = 1;
  std::int64_t window_ = 65'535;         // of the connection, for us
  std::int64_t stream_window_ = 65'535;  // of a new stream
  std::uint64_t unacknowledged_ = 0;     // bytes received that were not given back
  std::uint32_t peer_max_ = 0xffff'ffff;
  bool leaving_ = false;  // the peer takes no new calls
  std::string partial_;   // of a frame that has not come whole
  std::string fault_;
};

}  // namespace weir::drill
