#include "store/redis/asio_wire.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

// Boost 1.74 needs <utility> before its headers.
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "store/redis/name_lookup.h"
#include "store/redis/tls_loader.h"
#include "store/redis/tls_session.h"

namespace weir::store::redis {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Socket = asio::generic::stream_protocol::socket;

constexpr std::size_t kReadBytes = 64 * 1024;
// An address that has not answered for so long may not be there: the next one is tried beside it.
constexpr std::chrono::milliseconds kNextAddress{25};

LocalFault fault_of(const error_code& error) {
  if (error == asio::error::connection_refused) return LocalFault::refused;
  if (error == asio::error::connection_reset || error == asio::error::connection_aborted) {
    return LocalFault::reset;
  }
  if (error == asio::error::broken_pipe) return LocalFault::broken_pipe;
  if (error == asio::error::eof) return LocalFault::eof;
  if (error == asio::error::timed_out) return LocalFault::connect_timeout;
  return LocalFault::network;
}

bool is_busy(const error_code& error) {
  return error == asio::error::would_block || error == asio::error::try_again;
}

}  // namespace

// Handlers hold it, so that what completes after the wire is gone finds something to look at; each
// belongs to one connection, and is ignored once another one, or none, has taken its place.
struct AsioWire::Impl : std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& loop, Endpoint where, Lookup ask)
      : io(loop),
        endpoint(std::move(where)),
        lookup(std::move(ask)),
        socket(loop),
        patience(loop),
        timer(loop) {}

  asio::io_context& io;
  Endpoint endpoint;
  const Lookup lookup;
  Events* events = nullptr;
  Socket socket;
  // Until one is connected: to each of these addresses that was tried, none where that failed.
  std::vector<asio::generic::stream_protocol::endpoint> addresses;
  std::vector<std::unique_ptr<Socket>> racing;
  std::size_t tried = 0;
  asio::steady_timer patience;
  asio::steady_timer timer;
  std::uint64_t connection = 0;  // counts open() and close()
  std::uint64_t wakes = 0;
  std::string backlog;
  bool writing = false;
  std::array<char, kReadBytes> input;
  std::unique_ptr<TlsSession> tls;
  std::string plain;  // what came over `tls`

  void closed(std::uint64_t of, LocalFault why, std::string_view text = {}) {
    if (of != connection || events == nullptr) return;
    drop();
    events->on_closed(why, text);
  }

  void drop() {
    ++connection;
    stop_racing();
    error_code ignored;
    socket.close(ignored);
    backlog.clear();
    writing = false;
    tls.reset();
  }

  void open() {
    drop();
    const std::uint64_t of = connection;
    if (!endpoint.unix_path.empty()) {
      // Too long a path is an exception of Asio's endpoint.
      if (endpoint.unix_path.size() >= sizeof(sockaddr_un{}.sun_path)) {
        asio::post(io, [self = shared_from_this(), of] { self->closed(of, LocalFault::network); });
        return;
      }
      connect(of, {asio::local::stream_protocol::endpoint(endpoint.unix_path)});
      return;
    }
    error_code bad;
    const std::string host = lookup ? lookup(endpoint.host) : endpoint.host;
    const auto address = asio::ip::make_address(host, bad);
    if (!bad) {
      connect(of, {asio::ip::tcp::endpoint(address, endpoint.port)});
      return;
    }
    NameLookup::of(io).ask(host, [self = shared_from_this(), of](const auto& found) {
      if (of != self->connection || self->events == nullptr) return;
      if (found.empty()) return self->closed(of, LocalFault::dns);
      std::vector<asio::generic::stream_protocol::endpoint> to;
      for (const auto& one : found) {
        to.emplace_back(asio::ip::tcp::endpoint(one, self->endpoint.port));
      }
      self->connect(of, std::move(to));
    });
  }

  // The first of these addresses that answers. One that says nothing, as that of a machine that is
  // off or of a version of IP that leads nowhere here, keeps the next one waiting for a moment
  // only.
  void connect(std::uint64_t of, std::vector<asio::generic::stream_protocol::endpoint> to) {
    addresses = std::move(to);
    tried = 0;
    try_next(of);
  }

  void try_next(std::uint64_t of) {
    const std::size_t index = tried++;
    racing.push_back(std::make_unique<Socket>(io));
    racing[index]->async_connect(addresses[index],
                                 [self = shared_from_this(), of, index](const error_code& error) {
                                   self->connected(of, error, index);
                                 });
    if (tried == addresses.size()) return;
    patience.expires_after(kNextAddress);
    patience.async_wait([self = shared_from_this(), of](const error_code& error) {
      if (error || of != self->connection || self->racing.empty()) return;
      if (self->tried < self->addresses.size()) self->try_next(of);
    });
  }

  void connected(std::uint64_t of, const error_code& error, std::size_t index) {
    if (of != connection || events == nullptr || racing.empty()) return;
    if (error) {
      racing[index].reset();
      patience.cancel();
      if (tried < addresses.size()) return try_next(of);
      const bool all =
          std::all_of(racing.begin(), racing.end(), [](const auto& one) { return one == nullptr; });
      if (all) closed(of, fault_of(error));
      return;
    }
    socket = std::move(*racing[index]);
    stop_racing();
    connected(of);
  }

  void stop_racing() {
    racing.clear();
    patience.cancel();
  }

  void connected(std::uint64_t of) {
    error_code ignored;
    socket.non_blocking(true, ignored);
    if (endpoint.unix_path.empty()) {
      socket.set_option(asio::ip::tcp::no_delay(true), ignored);
      socket.set_option(asio::socket_base::keep_alive(true), ignored);
    }
    if (endpoint.tls) {
      begin_tls(of);
      return;
    }
    events->on_open();
    if (of == connection) read(of);
  }

  // Nothing is read before there is something to read it with.
  void begin_tls(std::uint64_t of) {
    TlsLoader::of(io).ask(*endpoint.tls,
                          [self = shared_from_this(), of, name = endpoint.tls->server_name](
                              Result<std::shared_ptr<const TlsContext>> context) {
                            if (of != self->connection || self->events == nullptr) return;
                            if (!context) {
                              self->closed(of, LocalFault::tls, context.error().message);
                              return;
                            }
                            auto begun = TlsSession::begin(*std::move(context), name);
                            if (!begun) {
                              self->closed(of, LocalFault::tls, begun.error().message);
                              return;
                            }
                            self->tls = std::move(*begun);
                            self->send_out(self->tls->output());
                            self->read(of);
                          });
  }

  // What came over TLS: the handshake's end is the connection's beginning.
  void received_tls(std::uint64_t of, std::string_view bytes) {
    const bool was_open = tls->state() == TlsSession::State::open;
    plain.clear();
    const TlsSession::State state = tls->received(bytes, plain);
    send_out(tls->output());
    if (state == TlsSession::State::failed) {
      closed(of, LocalFault::tls, std::string(tls->problem()));
      return;
    }
    if (!was_open && state != TlsSession::State::handshake) {
      events->on_open();
      if (of != connection) return;
    }
    if (!plain.empty()) events->on_bytes(plain);
    if (of == connection && state == TlsSession::State::ended) closed(of, LocalFault::eof);
  }

  void read(std::uint64_t of) {
    socket.async_read_some(asio::buffer(input), [self = shared_from_this(), of](
                                                    const error_code& error, std::size_t size) {
      if (of != self->connection || self->events == nullptr) return;
      if (error) {
        self->closed(of, fault_of(error));
        return;
      }
      if (self->tls) {
        self->received_tls(of, {self->input.data(), size});
      } else {
        self->events->on_bytes({self->input.data(), size});
      }
      if (of == self->connection) self->read(of);
    });
  }

  void send(std::string& bytes) {
    if (!endpoint.tls) return send_out(bytes);
    if (!tls) return bytes.clear();  // nothing goes out as it is
    if (tls->state() == TlsSession::State::open) tls->send(bytes);
    bytes.clear();
    send_out(tls->output());
    if (tls->state() != TlsSession::State::failed) return;
    asio::post(io, [self = shared_from_this(), of = connection, why = tls->problem()] {
      self->closed(of, LocalFault::tls, why);
    });
  }

  void send_out(std::string& bytes) {
    if (!socket.is_open()) {
      bytes.clear();
      return;
    }
    if (writing) {
      backlog.append(bytes);
      bytes.clear();
      return;
    }
    backlog.swap(bytes);
    bytes.clear();
    write();
  }

  // Writes at once what the socket takes, and the rest when it takes more.
  void write() {
    std::size_t written = 0;
    error_code error;
    while (written < backlog.size() && !error) {
      written += socket.write_some(asio::buffer(backlog.data() + written, backlog.size() - written),
                                   error);
    }
    backlog.erase(0, written);
    const std::uint64_t of = connection;
    if (error && !is_busy(error)) {
      // Not from inside a call: the reader will hear of it, or this does.
      asio::post(io,
                 [self = shared_from_this(), of, why = fault_of(error)] { self->closed(of, why); });
      return;
    }
    writing = !backlog.empty();
    if (!writing) return;
    socket.async_wait(Socket::wait_write, [self = shared_from_this(), of](const error_code& fault) {
      if (of != self->connection) return;
      if (fault) {
        self->closed(of, fault_of(fault));
        return;
      }
      self->writing = false;
      self->write();
    });
  }

  void flush_soon() {
    asio::post(io, [self = shared_from_this()] {
      if (self->events != nullptr) self->events->on_flush();
    });
  }

  void wake_at(MonoTime when) {
    const std::uint64_t wake = ++wakes;
    timer.expires_at(std::chrono::time_point_cast<asio::steady_timer::duration>(when));
    timer.async_wait([self = shared_from_this(), wake](const error_code& error) {
      if (error || wake != self->wakes || self->events == nullptr) return;
      self->events->on_wake();
    });
  }
};

AsioWire::AsioWire(asio::io_context& io, Endpoint endpoint, Lookup lookup)
    : impl_(std::make_shared<Impl>(io, std::move(endpoint), std::move(lookup))) {}

AsioWire::~AsioWire() {
  impl_->events = nullptr;
  impl_->drop();
  impl_->timer.cancel();
}

void AsioWire::aim(Endpoint endpoint) {
  impl_->endpoint = std::move(endpoint);
}
std::optional<Endpoint> AsioWire::where() const {
  const Endpoint& to = impl_->endpoint;
  return to.host.empty() && to.unix_path.empty() ? std::nullopt : std::optional(to);
}
void AsioWire::bind(Events* events) {
  impl_->events = events;
}
void AsioWire::open() {
  impl_->open();
}
void AsioWire::close() {
  impl_->drop();
}
void AsioWire::send(std::string& bytes) {
  impl_->send(bytes);
}
void AsioWire::flush_soon() {
  impl_->flush_soon();
}
void AsioWire::wake_at(MonoTime when) {
  impl_->wake_at(when);
}

}  // namespace weir::store::redis
