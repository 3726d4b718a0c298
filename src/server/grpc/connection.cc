#include "server/grpc/connection.h"

#include <algorithm>
#include <utility>

namespace weir::server::grpc {

void LaneShared::flush_later(GrpcConnection& connection) {
  if (std::exchange(connection.waiting_, true)) return;
  waiting_.push_back(&connection);
  if (waiting_.size() > 1) return;
  lane.post([self = weak_from_this()] {
    if (const auto shared = self.lock()) shared->flush();
  });
}

void LaneShared::flush() {
  flushing_.swap(waiting_);
  for (GrpcConnection* connection : flushing_) {
    if (connection == nullptr) continue;
    connection->waiting_ = false;
    connection->pump();
  }
  flushing_.clear();
}

void LaneShared::forget(GrpcConnection& connection) {
  std::replace(waiting_.begin(), waiting_.end(), &connection,
               static_cast<GrpcConnection*>(nullptr));
  std::replace(flushing_.begin(), flushing_.end(), &connection,
               static_cast<GrpcConnection*>(nullptr));
}

std::unique_ptr<LaneShared::Buffer> LaneShared::take_buffer() {
  // for_overwrite: a buffer need not be cleared before it is read into.
  if (spare_.empty()) return std::make_unique_for_overwrite<Buffer>();
  auto buffer = std::move(spare_.back());
  spare_.pop_back();
  return buffer;
}

void LaneShared::return_buffer(std::unique_ptr<Buffer> buffer) {
  if (spare_.size() < kSpareBuffers) spare_.push_back(std::move(buffer));
}

GrpcConnection::GrpcConnection(std::shared_ptr<LaneShared> shared, std::unique_ptr<Stream> stream)
    : shared_(std::move(shared)),
      stream_(std::move(stream)),
      session_(shared_->engine, shared_->lane.now(), this) {
  stream_->set_owner(*this);
  read_more();
}

GrpcConnection::~GrpcConnection() {
  if (waiting_) shared_->forget(*this);
  if (big_) shared_->return_buffer(std::move(big_));
}

std::span<char> GrpcConnection::buffer() noexcept {
  if (big_) return *big_;
  return small_;
}

void GrpcConnection::fit_buffer(std::size_t last_read) {
  if (!big_ && last_read == kSmallBuffer) {
    big_ = shared_->take_buffer();
  } else if (big_ && last_read < kSmallBuffer) {
    shared_->return_buffer(std::move(big_));
  }
}

void GrpcConnection::read_more() {
  if (reading_ || ended_ || closing_) return;
  reading_ = true;
  stream_->read(buffer());
}

void GrpcConnection::on_read(std::size_t bytes) {
  reading_ = false;
  if (parting_) {
    ignored_ += bytes;
    if (ignored_ > kMostIgnored) return on_failed();
    return read_more();
  }
  session_.feed({buffer().data(), bytes}, shared_->lane.now());
  fit_buffer(bytes);
  pump();
}

void GrpcConnection::on_end() {
  reading_ = false;
  ended_ = true;
  if (parting_ || session_.open_calls() == 0) return on_failed();
  pump();
}

void GrpcConnection::on_written() {
  writing_ = false;
  pending_.clear();
  pending_.shrink_to_fit();
  pump();
}

void GrpcConnection::on_failed() {
  closing_ = true;
  stream_->close();
}

void GrpcConnection::on_closed() {
  shared_->lane.release(*this);
}

void GrpcConnection::wake() {
  shared_->flush_later(*this);
}

void GrpcConnection::pump() {
  if (writing_ || closing_ || parting_) return;
  std::string& out = shared_->scratch;
  for (out.clear(), session_.pull(out, kPiece); !out.empty();
       out.clear(), session_.pull(out, kPiece)) {
    const std::size_t sent = stream_->write_some(out);
    if (sent == out.size()) continue;
    pending_.assign(out, sent);
    writing_ = true;
    since_ = shared_->lane.now();
    return stream_->write(pending_);
  }
  if (session_.finished()) return say_goodbye();
  if (ended_ && session_.open_calls() == 0) return on_failed();
  read_more();
}

// Closing at once would throw away what the peer has sent since, and with it our last words.
void GrpcConnection::say_goodbye() {
  if (ended_) return on_failed();
  parting_ = true;
  since_ = shared_->lane.now();
  stream_->shutdown_send();
  read_more();
}

void GrpcConnection::sweep(MonoTime now) {
  shared_->tick();
  if (closing_) return;
  if (parting_) {
    if (now - since_ > kLinger) on_failed();
    return;
  }
  if (writing_ && now - since_ > shared_->engine.limits().stall) return on_failed();
  session_.sweep(now);
  pump();
}

void GrpcConnection::drain() {
  if (closing_ || parting_) return;
  session_.drain(shared_->lane.now());
  pump();
}

}  // namespace weir::server::grpc
