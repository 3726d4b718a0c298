#include "server/listener.h"

#include <utility>  // Boost 1.74 needs it first

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>

#include "server/door.h"
#include "server/lane.h"

namespace weir::server {
namespace {

namespace asio = boost::asio;

// How many are accepted before other work has its turn.
constexpr int kAcceptBatch = 64;
// How long accepting rests when descriptors or memory have run out.
constexpr std::chrono::milliseconds kPause{100};

}  // namespace

ListenSocket::ListenSocket(ListenSocket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), family_(other.family_), file_(std::move(other.file_)) {}

ListenSocket& ListenSocket::operator=(ListenSocket&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(family_, other.family_);
  std::swap(file_, other.file_);
  return *this;
}

ListenSocket::~ListenSocket() {
  if (fd_ >= 0) ::close(fd_);
}

struct Listener::Acceptor {
  Acceptor(asio::io_context& io, int fd) : descriptor(io, fd), timer(io) {}
  ~Acceptor() { descriptor.release(); }  // the ListenSocket closes it

  asio::posix::stream_descriptor descriptor;
  asio::steady_timer timer;
  bool paused = false;
};

Listener::Listener(Lane& lane, ListenSocket socket, std::unique_ptr<Door> door,
                   Transport& transport)
    : lane_(lane),
      socket_(std::move(socket)),
      door_(std::move(door)),
      transport_(transport),
      acceptor_(std::make_shared<Acceptor>(lane.io(), socket_.fd())) {
  wait();
}

Listener::~Listener() = default;

void Listener::wait() {
  acceptor_->descriptor.async_wait(
      asio::posix::stream_descriptor::wait_read,
      [this, open = std::weak_ptr(acceptor_)](const boost::system::error_code& fault) {
        if (!fault && !open.expired()) accept_waiting();
      });
}

void Listener::accept_waiting() {
  lane_.begin_event();
  for (int i = 0; i < kAcceptBatch; ++i) {
    if (!accept_one()) break;
  }
  if (!acceptor_->paused) wait();
}

bool Listener::accept_one() {
  const int fd = ::accept4(socket_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return false;
    if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) {
      return true;  // that one client's fault (gone already, refused by a filter)
    }
    lane_.counts_.accept_faults.fetch_add(1, std::memory_order_relaxed);
    if (lane_.options_.on_accept_fault) lane_.options_.on_accept_fault(errno);
    pause();
    return false;
  }
  std::unique_ptr<Stream> stream = transport_.wrap(lane_, fd, socket_.family());
  if (lane_.full()) {
    lane_.counts_.turned_away.fetch_add(1, std::memory_order_relaxed);
    door_->turn_away(lane_, std::move(stream));
  } else {
    lane_.counts_.accepted.fetch_add(1, std::memory_order_relaxed);
    door_->open(lane_, std::move(stream));
  }
  return true;
}

void Listener::pause() {
  if (acceptor_ == nullptr) return;
  acceptor_->paused = true;
  acceptor_->timer.expires_after(kPause);
  // Cancelling comes too late for a handler that waits for its turn already.
  acceptor_->timer.async_wait(
      [this, open = std::weak_ptr(acceptor_)](const boost::system::error_code& fault) {
        if (fault || open.expired()) return;
        acceptor_->paused = false;
        accept_waiting();
      });
}

void Listener::close() {
  if (acceptor_ == nullptr) return;
  acceptor_.reset();
  while (accept_one()) {
  }
  socket_ = {};
}

}  // namespace weir::server
