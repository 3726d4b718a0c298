#include "store/redis/asio_wire.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "store/redis/name_lookup.h"

namespace weir::store::redis {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

sockaddr_in at(const char* address, std::uint16_t port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  ::inet_pton(AF_INET, address, &to.sin_addr);
  return to;
}

class Fd {
 public:
  Fd() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (fd_ < 0) throw std::runtime_error("no socket");
  }
  ~Fd() { ::close(fd_); }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

// Listens on an address of this machine, and takes nothing that comes.
class SilentListener {
 public:
  SilentListener(const char* address, std::uint16_t port, int backlog) : address_(address) {
    const int on = 1;
    ::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in here = at(address, port);
    socklen_t size = sizeof here;
    if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&here), size) != 0 ||
        ::listen(listener_.get(), backlog) != 0 ||
        ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&here), &size) != 0) {
      throw std::runtime_error(std::string("cannot listen on ") + address);
    }
    port_ = ntohs(here.sin_port);
  }
  std::uint16_t port() const noexcept { return port_; }
  bool has_a_caller() const {
    pollfd wanted{.fd = listener_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&wanted, 1, 0) == 1;
  }

  // Until its queue is full: who comes then is not even refused, as by a machine that is off.
  void fill() {
    for (int i = 0; i < 16; ++i) {
      const Fd& one = *callers_.emplace_back(std::make_unique<Fd>());
      ::fcntl(one.get(), F_SETFL, O_NONBLOCK);
      const sockaddr_in there = at(address_, port_);
      (void)::connect(one.get(), reinterpret_cast<const sockaddr*>(&there), sizeof there);
      pollfd wanted{.fd = one.get(), .events = POLLOUT, .revents = 0};
      if (::poll(&wanted, 1, 300) == 0) return;
    }
    throw std::runtime_error("its queue is never full");
  }

 private:
  const char* address_;
  Fd listener_;
  std::uint16_t port_ = 0;
  std::vector<std::unique_ptr<Fd>> callers_;
};

class AsioWireTest : public ::testing::Test, private Wire::Events {
 protected:
  // Of a host that has these addresses.
  void open(std::vector<const char*> addresses, std::uint16_t port) {
    NameLookup::Addresses found;
    for (const char* one : addresses) found.push_back(asio::ip::make_address(one));
    auto names = std::make_unique<NameLookup>(io_, [found](const std::string&) { return found; });
    asio::add_service(io_, names.release());
    wire_.emplace(io_, Endpoint{.host = "store", .port = port});
    wire_->bind(this);
    wire_->open();
  }
  // What it comes to, in half a minute.
  std::string outcome() {
    const auto until = std::chrono::steady_clock::now() + 30s;
    while (said_.empty() && std::chrono::steady_clock::now() < until) io_.run_one_for(100ms);
    return said_;
  }
  std::string said() const { return said_; }

  asio::io_context io_;
  std::optional<AsioWire> wire_;

 private:
  void on_open() override { said_ += "open"; }
  void on_bytes(std::string_view) override {}
  void on_closed(LocalFault why, std::string_view) override {
    said_ += "closed: " + std::string(row_of(why).meaning);
  }
  void on_flush() override {}
  void on_wake() override {}

  std::string said_;
};

TEST_F(AsioWireTest, IsNotKeptByAnAddressThatSaysNothing) {
  std::optional<SilentListener> off, there;
  for (int tries = 1; !there; ++tries) {
    off.emplace("127.0.0.2", 0, 0);
    try {
      there.emplace("127.0.0.1", off->port(), 16);
    } catch (const std::runtime_error&) {
      if (tries == 10) throw;  // before that: another test listens there
    }
  }
  off->fill();
  open({"127.0.0.2", "127.0.0.2", "127.0.0.1"}, off->port());
  EXPECT_EQ(outcome(), "open");
  EXPECT_TRUE(there->has_a_caller());
}

TEST_F(AsioWireTest, PassesOverAnAddressThatRefuses) {
  SilentListener there("127.0.0.1", 0, 16);
  open({"127.0.0.3", "127.0.0.1"}, there.port());
  EXPECT_EQ(outcome(), "open");
  EXPECT_TRUE(there.has_a_caller());
}

TEST_F(AsioWireTest, IsNotOverWhileOneAddressMayStillAnswer) {
  SilentListener off("127.0.0.2", 0, 0);
  off.fill();
  open({"127.0.0.2", "127.0.0.3"}, off.port());
  for (int i = 0; i < 20; ++i) io_.run_one_for(20ms);
  wire_->close();
  EXPECT_EQ(said(), "") << "nobody has said that it is over";
}

TEST_F(AsioWireTest, SaysWhyWhereAllRefuse) {
  std::uint16_t port = 0;
  { port = SilentListener("127.0.0.1", 0, 1).port(); }
  open({"127.0.0.2", "127.0.0.1"}, port);
  EXPECT_EQ(outcome(), "closed: " + std::string(row_of(LocalFault::refused).meaning));
}

TEST_F(AsioWireTest, HasNoAddressWhereNobodyKnowsTheName) {
  open({}, 1);
  EXPECT_EQ(outcome(), "closed: " + std::string(row_of(LocalFault::dns).meaning));
}

}  // namespace
}  // namespace weir::store::redis
