#include "server/lane.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "server/door.h"

namespace weir::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr auto kPatience = 20s;

// Sends back what it is sent; closes when told so, when the peer ends, or at the first sweep after
// `idle`.
class Echo final : public Connection, public StreamOwner {
 public:
  Echo(Lane& lane, std::unique_ptr<Stream> stream, Nanos idle)
      : lane_(lane), stream_(std::move(stream)), idle_(idle), seen_(lane.now()) {
    stream_->set_owner(*this);
    stream_->read(buffer_);
  }
  void on_read(std::size_t bytes) override {
    seen_ = lane_.now();
    const std::span<const char> got(buffer_.data(), bytes);
    const std::size_t sent = stream_->write_some(got);
    if (sent == bytes) return on_written();
    stream_->write(got.subspan(sent));
  }
  void on_end() override { stream_->close(); }
  void on_written() override {
    if (draining_) return stream_->close();
    stream_->read(buffer_);
  }
  void on_failed() override { stream_->close(); }
  void on_closed() override { lane_.release(*this); }
  void sweep(MonoTime now) override {
    if (now - seen_ > idle_) stream_->close();
  }
  void drain() override { draining_ = true; }

 private:
  Lane& lane_;
  std::unique_ptr<Stream> stream_;
  Nanos idle_;
  MonoTime seen_;
  bool draining_ = false;
  std::array<char, 4096> buffer_{};
};

class EchoDoor final : public Door {
 public:
  explicit EchoDoor(Nanos idle = 1h) : idle_(idle) {}
  void open(Lane& lane, std::unique_ptr<Stream> stream) override {
    lane.adopt(std::make_unique<Echo>(lane, std::move(stream), idle_));
  }
  void turn_away(Lane&, std::unique_ptr<Stream> stream) override {
    stream->write_some(std::string_view("full"));
  }

 private:
  Nanos idle_;
};

// A client that waits at most kPatience for anything.
class Client {
 public:
  explicit Client(Address address, bool connect_now = true) : address_(std::move(address)) {
    const bool local = address_.kind == Address::Kind::unix_socket;
    fd_ = ::socket(local ? AF_UNIX : AF_INET, SOCK_STREAM, 0);
    timeval patience{};
    patience.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(kPatience).count();
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect_now) connect();
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { ::close(fd_); }

  void connect() {
    if (address_.kind == Address::Kind::unix_socket) {
      sockaddr_un at{};
      at.sun_family = AF_UNIX;
      address_.path.copy(at.sun_path, sizeof at.sun_path - 1);
      connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
    } else {
      sockaddr_in at{};
      at.sin_family = AF_INET;
      at.sin_port = htons(address_.port);
      ::inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
      connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
    }
  }
  bool connected() const { return connected_; }
  void send(std::string_view text) { (void)::send(fd_, text.data(), text.size(), MSG_NOSIGNAL); }
  // Up to `bytes`, or until the other side closes.
  std::string receive(std::size_t bytes) {
    std::string got(bytes, '\0');
    const ssize_t count = ::recv(fd_, got.data(), bytes, MSG_WAITALL);
    got.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return got;
  }

 private:
  const Address address_;
  int fd_ = -1;
  bool connected_ = false;
};

Address loopback() {
  return parse_address("127.0.0.1:0").value();
}

std::string scratch(const std::string& name) {
  const auto folder =
      std::filesystem::path(testing::TempDir()) / ("weir_lane_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  return (folder / name).string();
}

struct Served {
  explicit Served(const Address& address, LaneOptions options = {}, Nanos idle = 1h)
      : lane(options) {
    ListenSockets made = listen_on(address, 1).value();
    at = made.address;
    lane.listen(std::move(made.sockets[0]), std::make_unique<EchoDoor>(idle));
    lane.start();
  }
  Address at;
  Lane lane;
};

TEST(Lane, ServesTcpAndUnixSockets) {
  for (const Address& address :
       {loopback(), parse_address("unix:" + scratch("serve.sock")).value()}) {
    Served served(address);
    Client client(served.at);
    client.send("over the weir");
    EXPECT_EQ(client.receive(13), "over the weir") << address.text();
  }
}

TEST(Lane, TurnsAwayWhatIsOverItsConnections) {
  Served served(loopback(), {.max_connections = 2});
  Client first(served.at), second(served.at);
  first.send("a");
  second.send("b");
  EXPECT_EQ(first.receive(1), "a");
  EXPECT_EQ(second.receive(1), "b");
  Client third(served.at);
  EXPECT_EQ(third.receive(100), "full");
  EXPECT_EQ(served.lane.counts().turned_away.load(), 1u);
  EXPECT_EQ(served.lane.counts().open.load(), 2u);
}

TEST(Lane, SweepEndsIdleConnections) {
  Served served(loopback(), {.sweep = 10ms}, /*idle=*/20ms);
  Client client(served.at);
  EXPECT_EQ(client.receive(1), "");  // closed by the other side
  EXPECT_EQ(served.lane.counts().accepted.load(), 1u);
}

TEST(Lane, DrainAnswersWhatIsOpenAndListensNoMore) {
  Served served(loopback());
  Client client(served.at);
  client.send("1");
  ASSERT_EQ(client.receive(1), "1");
  std::promise<void> drained;
  std::promise<void> closed;
  served.lane.post([&] {
    served.lane.drain([&] { drained.set_value(); });
    closed.set_value();
  });
  ASSERT_EQ(closed.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_FALSE(Client(served.at).connected());
  auto done = drained.get_future();
  EXPECT_EQ(done.wait_for(0s), std::future_status::timeout);
  client.send("2");
  EXPECT_EQ(client.receive(2), "2");
  EXPECT_EQ(done.wait_for(kPatience), std::future_status::ready);
}

TEST(Lane, DrainAcceptsWhatWasWaiting) {
  ListenSockets made = listen_on(loopback(), 1).value();
  Client client(made.address);  // in the kernel's queue: nobody has accepted it
  client.send("early");
  Lane lane;
  lane.listen(std::move(made.sockets[0]), std::make_unique<EchoDoor>());
  std::promise<void> drained;
  lane.post([&] { lane.drain([&] { drained.set_value(); }); });
  lane.start();
  EXPECT_EQ(client.receive(6), "early");
  EXPECT_EQ(drained.get_future().wait_for(kPatience), std::future_status::ready);
}

TEST(Lane, RestsWhenDescriptorsRunOutAndTakesTheClientAfterwards) {
  std::atomic<int> told{0};
  Served served(loopback(), {.on_accept_fault = [&](int number) { told = number; }});
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  Client client(served.at, /*connect_now=*/false);
  // The lowest free number is the first that may not be given out any more.
  const int lowest = ::dup(0);
  ::close(lowest);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(lowest);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  client.connect();
  client.send("patience");
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (told == 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(told, EMFILE);
  EXPECT_GE(served.lane.counts().accept_faults.load(), 1u);
  EXPECT_EQ(client.receive(8), "patience");
}

TEST(Lane, DestructionClosesWhatIsOpen) {
  auto served = std::make_unique<Served>(loopback());
  Client client(served->at);
  client.send("x");
  ASSERT_EQ(client.receive(1), "x");
  served.reset();
  EXPECT_EQ(client.receive(1), "");
}

TEST(ListenOn, GivesEveryLaneASocketOnTheSamePort) {
  const ListenSockets made = listen_on(loopback(), 3).value();
  EXPECT_EQ(made.sockets.size(), 3u);
  EXPECT_NE(made.address.port, 0);
}

TEST(ListenOn, NamesThePortThatIsInUse) {
  // Another server of ours too: SO_REUSEPORT must not make two share in silence.
  const ListenSockets first = listen_on(loopback(), 2).value();
  const auto second = listen_on(first.address, 2);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::unavailable);
  EXPECT_THAT(second.error().message,
              HasSubstr("port " + std::to_string(first.address.port) + " is in use"));
}

TEST(ListenOn, NamesAnAddressThatIsNotHere) {
  const auto made = listen_on(parse_address("192.0.2.1:0").value(), 1);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("192.0.2.1:0: no interface has this address"));
}

TEST(ListenOn, ReplacesAStaleSocketFileOnly) {
  const Address address = parse_address("unix:" + scratch("stale.sock")).value();
  {
    // What a killed server leaves: a bound file that nobody listens on.
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    address.path.copy(at.sun_path, sizeof at.sun_path - 1);
    ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    ::close(fd);
  }
  Result<ListenSockets> made = listen_on(address, 2, 0600);
  ASSERT_TRUE(made) << made.error().message;
  struct stat file {};
  ASSERT_EQ(::lstat(address.path.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777u, 0600u);

  const auto again = listen_on(address, 1);
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().message, HasSubstr("another process answers on this socket"));
  EXPECT_TRUE(std::filesystem::exists(address.path));

  made->sockets.clear();
  EXPECT_FALSE(std::filesystem::exists(address.path));
}

TEST(ListenOn, LeavesAFileThatIsNotASocketAlone) {
  const std::string path = scratch("precious.txt");
  std::ofstream(path) << "precious";
  const auto made = listen_on(parse_address("unix:" + path).value(), 1);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("is not a socket"));
  EXPECT_TRUE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace weir::server
