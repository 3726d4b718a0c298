#include "drill/proxy/api_door.h"

#include <csignal>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include "drill/proxy/endpoint.h"

namespace weir::drill {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr unsigned kForbidden = 403;

using Request = http::request<http::string_body>;

std::string_view text(boost::beast::string_view view) {
  return {view.data(), view.size()};
}

// Whether a Host header names this machine: a page that has made its own name lead here does not.
bool names_loopback(std::string_view host) {
  const std::size_t bracket = host.rfind(']');
  const std::size_t colon = host.rfind(':');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    host = host.substr(0, colon);
  }
  if (host.empty() || host == "localhost") return true;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  error_code none;
  const auto address = asio::ip::make_address(std::string(host), none);
  return !none && address.is_loopback();
}

// Returns why a request is refused, if it is.
const char* fault_of(const Request& request) {
  if (text(request[http::field::user_agent]).starts_with("Mozilla/")) {
    return "User agent not allowed: no browser may ask here";
  }
  if (request.find(http::field::origin) != request.end()) {
    return "Origin not allowed: no page may ask here";
  }
  if (!names_loopback(text(request[http::field::host]))) {
    return "Host not allowed: it must be localhost or a loopback address";
  }
  return nullptr;
}

}  // namespace

class ApiDoor::Impl {
 public:
  Impl(const tcp::endpoint& at, ProxyApi& api) : api_(api), at_(at) {}

  Result<void> open() {
    error_code error;
    acceptor_.open(at_.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(at_, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return Error{ErrorCode::unavailable,
                   "cannot listen on " + text_of(at_) + ": " + error.message()};
    }
    at_ = acceptor_.local_endpoint();
    address_ = text_of(at_);
    return {};
  }

  const std::string& address() const noexcept { return address_; }

  int run() {
    int number = 0;
    asio::signal_set signals(io_, SIGINT, SIGTERM, SIGHUP);
    signals.async_wait([&](const error_code& cancelled, int came) {
      if (cancelled) return;
      number = came;
      io_.stop();
    });
    accept();
    io_.run();
    return number;
  }

  void at(MonoTime when, std::function<void()> work) {
    auto timer = std::make_shared<asio::steady_timer>(io_);
    timer->expires_at(std::chrono::time_point_cast<asio::steady_timer::duration>(when));
    timer->async_wait([timer, work = std::move(work)](const error_code& cancelled) {
      if (!cancelled) work();
    });
  }

  void stop() {
    asio::post(io_, [this] { io_.stop(); });
  }

 private:
  // One connection; its handlers hold it.
  struct Session : std::enable_shared_from_this<Session> {
    Session(Impl& owner, tcp::socket socket) : door(owner), stream(std::move(socket)) {
      ++door.open_;
    }
    ~Session() { --door.open_; }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    void read() {
      parser.emplace();
      parser->body_limit(kMostBodyBytes);
      stream.expires_after(std::chrono::duration_cast<std::chrono::milliseconds>(kIdle));
      http::async_read(stream, buffer, *parser,
                       [self = shared_from_this()](const error_code& fault, std::size_t) {
                         self->on_read(fault);
                       });
    }

    void on_read(const error_code& fault) {
      if (fault == http::error::body_limit) {
        return write({413, "{\"error\":\"the body is too long\",\"status\":413}\n"}, false);
      }
      if (fault) return;
      const Request& request = parser->get();
      if (const char* why = fault_of(request)) {
        return write({kForbidden, "{\"error\":\"" + std::string(why) + "\",\"status\":403}\n"},
                     false);
      }
      write(door.api_.answer(text(request.method_string()), text(request.target()), request.body()),
            request.keep_alive());
    }

    void write(ApiAnswer answer, bool again) {
      response = {};
      response.result(answer.status);
      response.version(11);
      response.keep_alive(again);
      if (!answer.body.empty()) response.set(http::field::content_type, "application/json");
      response.body() = std::move(answer.body);
      response.prepare_payload();
      http::async_write(stream, response,
                        [self = shared_from_this(), again](const error_code& fault, std::size_t) {
                          if (!fault && again) return self->read();
                          error_code ignored;
                          self->stream.socket().shutdown(tcp::socket::shutdown_send, ignored);
                        });
    }

    Impl& door;
    beast::tcp_stream stream;
    beast::flat_buffer buffer{kMostBodyBytes + (64U << 10U)};
    std::optional<http::request_parser<http::string_body>> parser;
    http::response<http::string_body> response;
  };

  void accept() {
    acceptor_.async_accept([this](const error_code& fault, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      // Beyond the most it is closed at once: who asks in such numbers is no tool of ours.
      if (!fault && open_ < kMostConnections) {
        std::make_shared<Session>(*this, std::move(socket))->read();
      }
      accept();
    });
  }

  ProxyApi& api_;
  std::size_t open_ = 0;
  asio::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  tcp::endpoint at_;
  std::string address_;
};

Result<std::unique_ptr<ApiDoor>> ApiDoor::open(const std::string& address, ProxyApi& api) {
  const auto at = endpoint_of(address);
  if (!at) return at.error();
  if (!at->address().is_loopback()) {
    return Error{ErrorCode::invalid_argument,
                 address +
                     " is no loopback address: who reaches the API can break what is behind "
                     "its proxies"};
  }
  auto impl = std::make_unique<Impl>(*at, api);
  if (auto opened = impl->open(); !opened) return opened.error();
  return std::unique_ptr<ApiDoor>(new ApiDoor(std::move(impl)));
}

ApiDoor::ApiDoor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ApiDoor::~ApiDoor() = default;
const std::string& ApiDoor::address() const noexcept {
  return impl_->address();
}
int ApiDoor::run() {
  return impl_->run();
}
void ApiDoor::at(MonoTime when, std::function<void()> work) {
  impl_->at(when, std::move(work));
}
void ApiDoor::stop() {
  impl_->stop();
}

}  // namespace weir::drill
