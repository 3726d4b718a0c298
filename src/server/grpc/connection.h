#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "server/grpc/session.h"
#include "server/lane.h"
#include "server/stream.h"

namespace weir::server::grpc {

class GrpcConnection;

// What the gRPC connections of one lane share. It outlives the door that made it: connections hold
// on to it.
//
// Threads:     the lane's.
struct LaneShared : std::enable_shared_from_this<LaneShared> {
  explicit LaneShared(Lane& its_lane, SessionLimits limits) : lane(its_lane), engine(limits) {}
  virtual ~LaneShared() = default;
  // Comes with each connection's sweep.
  virtual void tick() {}

  // Has the connection write what its session has to say, once this turn of the loop.
  void flush_later(GrpcConnection& connection);
  void forget(GrpcConnection& connection);

  static constexpr std::size_t kBigBuffer = 64U << 10U;
  using Buffer = std::array<char, kBigBuffer>;
  std::unique_ptr<Buffer> take_buffer();
  void return_buffer(std::unique_ptr<Buffer> buffer);

  Lane& lane;
  Engine engine;
  std::string scratch;  // output on its way to a socket

 private:
  void flush();

  static constexpr std::size_t kSpareBuffers = 64;
  std::vector<std::unique_ptr<Buffer>> spare_;
  std::vector<GrpcConnection*> waiting_;
  std::vector<GrpcConnection*> flushing_;
};

// Joins a Session and a Stream.
//
// Guarantees:  reads nothing while what was to be sent has not been taken, so a peer that does not
//              read is not served either.
class GrpcConnection final : public Connection, private StreamOwner, private Waker {
 public:
  GrpcConnection(std::shared_ptr<LaneShared> shared, std::unique_ptr<Stream> stream);
  ~GrpcConnection() override;

  void sweep(MonoTime now) override;
  void drain() override;

 private:
  friend struct LaneShared;

  // An idle connection holds this much to read into; a busy one borrows a big buffer.
  static constexpr std::size_t kSmallBuffer = 2048;
  // Output is taken from the session in pieces of about this size.
  static constexpr std::size_t kPiece = 64U << 10U;
  // After our last words, so much is still read, so that the peer hears them.
  static constexpr std::size_t kMostIgnored = 1U << 20U;
  static constexpr Nanos kLinger{std::chrono::seconds(2)};

  void on_read(std::size_t bytes) override;
  void on_end() override;
  void on_written() override;
  void on_failed() override;
  void on_closed() override;
  void wake() override;

  void read_more();
  // Sends what there is to send, then reads on or says goodbye.
  void pump();
  void say_goodbye();
  void fit_buffer(std::size_t last_read);
  std::span<char> buffer() noexcept;

  std::shared_ptr<LaneShared> shared_;
  std::unique_ptr<Stream> stream_;
  Session session_;
  std::string pending_;  // given to the stream, not taken yet
  std::unique_ptr<LaneShared::Buffer> big_;
  bool reading_ = false;
  bool writing_ = false;
  bool ended_ = false;    // the peer sends nothing more
  bool parting_ = false;  // we send nothing more
  bool closing_ = false;
  bool waiting_ = false;  // in LaneShared's list
  std::size_t ignored_ = 0;
  MonoTime since_{};  // since when it is writing, or parting
  std::array<char, kSmallBuffer> small_;
};

}  // namespace weir::server::grpc
