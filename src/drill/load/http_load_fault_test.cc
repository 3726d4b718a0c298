// A load against servers that behave badly.

#include "drill/load/http_load.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace weir::drill {
namespace {

using namespace std::chrono_literals;
using End = HttpOutcome::End;

constexpr const char* kOk = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

// A server whose connections a test serves by hand, one thread each.
class Server {
 public:
  using Serve = std::function<void(int socket, int number)>;
  explicit Server(Serve serve) : serve_(std::move(serve)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
    ::listen(listener_, 64);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] {
      for (int number = 0;; ++number) {
        const int socket = ::accept(listener_, nullptr, nullptr);
        if (socket < 0) return;
        ++taken;
        threads_.emplace_back([this, socket, number] {
          serve_(socket, number);
          ::close(socket);
        });
      }
    });
  }
  ~Server() {
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    ::close(listener_);
    for (std::thread& each : threads_) each.join();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  std::atomic<int> taken{0};

 private:
  const Serve serve_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::thread acceptor_;
  std::vector<std::thread> threads_;
};

// Whether a request came before the client went away.
bool take_request(int socket) {
  std::string bytes;
  char chunk[512];
  while (!bytes.ends_with("\r\n\r\n")) {
    const ssize_t got = ::recv(socket, chunk, sizeof chunk, 0);
    if (got <= 0) return false;
    bytes.append(chunk, static_cast<std::size_t>(got));
  }
  return true;
}

void say(int socket, const std::string& text) {
  (void)::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
}

// So many calls, one after another, so far apart; their outcomes.
std::vector<HttpOutcome> call(const std::string& address, int count, Nanos apart,
                              Nanos patience = 5s) {
  HttpLoad load({.address = address, .connections = 1, .patience = patience});
  std::vector<HttpOutcome> outcomes;
  const MonoTime begin = Clock::real().mono();
  int made = 0;
  const auto ran = load.run(
      [&](HttpLoad::Call& next) {
        next.due = begin + apart * made;
        next.request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        return made++ < count;
      },
      [&](const HttpOutcome& outcome) { outcomes.push_back(outcome); });
  EXPECT_TRUE(ran.has_value());
  return outcomes;
}

TEST(HttpLoad, AConnectionThatWasClosedWhileIdleIsNoFaultOfTheNextCall) {
  // Each connection answers once, promises to stay, and goes.
  Server server([](int socket, int) {
    if (take_request(socket)) say(socket, kOk);
  });
  const auto outcomes = call(server.address(), 5, 50ms);
  ASSERT_EQ(outcomes.size(), 5u);
  for (const HttpOutcome& each : outcomes) {
    EXPECT_EQ(each.end, End::answered);
    EXPECT_EQ(each.status, 200);
  }
  EXPECT_EQ(server.taken, 5);
}

TEST(HttpLoad, ACallIsMadeAgainOnceAndNotAfterPartOfAnAnswer) {
  // The second call of the first connection gets a beginning; that is an answer that was cut.
  Server server([](int socket, int number) {
    if (!take_request(socket)) return;
    say(socket, kOk);
    if (number == 0 && take_request(socket)) say(socket, "HTTP/1.1 200 OK\r\n");
  });
  const auto outcomes = call(server.address(), 2, 50ms);
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_EQ(outcomes[0].end, End::answered);
  EXPECT_EQ(outcomes[1].end, End::cut);
  EXPECT_EQ(server.taken, 1);

  Server mute([](int socket, int) { take_request(socket); });
  EXPECT_EQ(call(mute.address(), 1, 0ms).at(0).end, End::cut);
  EXPECT_EQ(mute.taken, 1) << "a new connection that is cut is no idle one";
}

TEST(HttpLoad, TellsTimeoutsFromRefusals) {
  Server silent([](int socket, int) {
    while (take_request(socket)) {
    }
  });
  EXPECT_EQ(call(silent.address(), 1, 0ms, 100ms).at(0).end, End::timed_out);
  EXPECT_EQ(call("127.0.0.1:1", 1, 0ms).at(0).end, End::refused);
  HttpLoad nowhere({.address = "nowhere"});
  EXPECT_FALSE(nowhere.run([](HttpLoad::Call&) { return false; }, [](const HttpOutcome&) {}));
}

}  // namespace
}  // namespace weir::drill
