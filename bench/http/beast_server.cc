// The least that a Boost.Beast server can do: read a request, answer 16 bytes. What the HTTP door
// is measured against.

#include <utility>  // Boost 1.74 needs it first

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <iostream>
#include <memory>

namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Socket = asio::ip::tcp::socket;

class Session : public std::enable_shared_from_this<Session> {
 public:
  explicit Session(Socket socket) : socket_(std::move(socket)) {}

  void read() {
    request_ = {};
    http::async_read(socket_, buffer_, request_,
                     [self = shared_from_this()](boost::system::error_code fault, std::size_t) {
                       if (!fault) self->write();
                     });
  }

 private:
  void write() {
    response_ = {};
    response_.version(request_.version());
    response_.result(http::status::ok);
    response_.set(http::field::content_type, "application/json");
    response_.keep_alive(request_.keep_alive());
    response_.body() = "{\"allowed\":true}";
    response_.prepare_payload();
    http::async_write(socket_, response_,
                      [self = shared_from_this()](boost::system::error_code fault, std::size_t) {
                        if (!fault) self->read();
                      });
  }

  Socket socket_;
  boost::beast::flat_buffer buffer_;
  http::request<http::string_body> request_;
  http::response<http::string_body> response_;
};

void accept(asio::ip::tcp::acceptor& acceptor) {
  acceptor.async_accept([&acceptor](boost::system::error_code fault, Socket socket) {
    if (!fault) {
      socket.set_option(asio::ip::tcp::no_delay(true));
      std::make_shared<Session>(std::move(socket))->read();
    }
    accept(acceptor);
  });
}

}  // namespace

int main() {
  asio::io_context io{1};
  asio::ip::tcp::acceptor acceptor(io, {asio::ip::make_address("127.0.0.1"), 0});
  std::cout << "http://" << acceptor.local_endpoint() << std::endl;
  accept(acceptor);
  io.run();
}
