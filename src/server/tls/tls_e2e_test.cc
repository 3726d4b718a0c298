#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <optional>

#include "server/door.h"
#include "server/lane.h"
#include "server/tls/tls_transport.h"
#include "testing/test_certificate.h"

namespace weir::server {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// Sends back what it is sent, through a buffer of odd size, with write_some first and write after.
class OddEcho final : public Connection, public StreamOwner {
 public:
  OddEcho(Lane& lane, std::unique_ptr<Stream> stream) : lane_(lane), stream_(std::move(stream)) {
    stream_->set_owner(*this);
    stream_->read(buffer_);
  }
  void on_read(std::size_t bytes) override {
    const std::span<const char> got(buffer_.data(), bytes);
    const std::size_t sent = stream_->write_some(got.first(bytes / 2));
    stream_->write(got.subspan(sent));
  }
  void on_end() override {
    stream_->shutdown_send();
    stream_->close();
  }
  void on_written() override { stream_->read(buffer_); }
  void on_failed() override { stream_->close(); }
  void on_closed() override { lane_.release(*this); }
  void sweep(MonoTime) override {}
  void drain() override { stream_->close(); }

 private:
  Lane& lane_;
  std::unique_ptr<Stream> stream_;
  std::array<char, 5003> buffer_{};
};

class OddEchoDoor final : public Door {
 public:
  void open(Lane& lane, std::unique_ptr<Stream> stream) override {
    lane.adopt(std::make_unique<OddEcho>(lane, std::move(stream)));
  }
};

// A blocking OpenSSL client that waits at most 20 s for anything.
class TlsClient {
 public:
  explicit TlsClient(std::uint16_t port) : context_(SSL_CTX_new(TLS_client_method())) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    ::inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
    fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
    timeval patience{};
    patience.tv_sec = 20;
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
  }
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;
  ~TlsClient() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
    ::close(fd_);
  }

  SSL_CTX* context() { return context_; }
  int fd() const { return fd_; }
  // Trusts `root` alone, and shows `own` where one is given.
  bool connect(const testing::TestCertificate& root, const testing::TestCertificate* own = nullptr,
               std::string_view alpn = {}) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context_), root.certificate());
    SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, nullptr);
    if (own != nullptr) {
      SSL_CTX_use_certificate(context_, own->certificate());
      SSL_CTX_use_PrivateKey(context_, own->key());
    }
    ssl_ = SSL_new(context_);
    if (!alpn.empty()) {
      SSL_set_alpn_protos(ssl_, reinterpret_cast<const unsigned char*>(alpn.data()),
                          static_cast<unsigned>(alpn.size()));
    }
    SSL_set_fd(ssl_, fd_);
    return connected_ && SSL_connect(ssl_) == 1;
  }
  bool send(std::string_view bytes) {
    return SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size())) ==
           static_cast<int>(bytes.size());
  }
  std::string receive(std::size_t bytes) {
    std::string got;
    std::array<char, 16384> buffer{};
    while (got.size() < bytes) {
      const int count = SSL_read(ssl_, buffer.data(), buffer.size());
      if (count <= 0) break;
      got.append(buffer.data(), static_cast<std::size_t>(count));
    }
    return got;
  }
  std::string alpn() const {
    const unsigned char* name = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(ssl_, &name, &size);
    return {reinterpret_cast<const char*>(name), size};
  }
  // TLS 1.3: a server that does not like our certificate says so after the handshake.
  bool usable() { return send("?") && receive(1) == "?"; }
  void end() { SSL_shutdown(ssl_); }
  SSL* ssl() { return ssl_; }

 private:
  SSL_CTX* context_;
  SSL* ssl_ = nullptr;
  int fd_ = -1;
  bool connected_ = false;
};

class Tls : public ::testing::Test {
 protected:
  Tls() {
    folder = std::filesystem::temp_directory_path() /
             ("weir-tls-" + std::to_string(::getpid()) + "-" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder);
    options.cert_file = folder / "cert.pem";
    options.key_file = folder / "key.pem";
    root.write(options.cert_file, options.key_file);
  }
  ~Tls() override {
    lane.stop();
    std::filesystem::remove_all(folder);
  }

  void serve() {
    auto opened = TlsTransport::open(options, Clock::real(), [this](const Result<void>& outcome) {
      last_reload = outcome ? "" : outcome.error().message;
    });
    ASSERT_TRUE(opened) << opened.error().message;
    transport = std::move(*opened);
    auto sockets = listen_on(*parse_address("127.0.0.1:0"), 1);
    ASSERT_TRUE(sockets) << sockets.error().message;
    port = sockets->address.port;
    lane.listen(std::move(sockets->sockets[0]), std::make_unique<OddEchoDoor>(), *transport);
    lane.start();
  }

  std::filesystem::path folder;
  testing::TestCertificate root{"root"};
  TlsOptions options;
  std::unique_ptr<TlsTransport> transport;
  std::optional<std::string> last_reload;
  std::uint16_t port = 0;
  Lane lane;
};

TEST_F(Tls, CarriesBytesBothWays) {
  serve();
  TlsClient client(port);
  ASSERT_TRUE(client.connect(root));
  for (const std::size_t size : {1U, 5003U, 100'000U}) {
    const std::string sent(size, static_cast<char>('a' + size % 26));
    std::thread writer([&] { EXPECT_TRUE(client.send(sent)); });
    writer.join();
    EXPECT_EQ(client.receive(size), sent);
  }
  client.end();
  EXPECT_EQ(client.receive(1), "");
  // Its own close_notify arrived: the end is the server's word, not a cut.
  EXPECT_EQ(SSL_get_shutdown(client.ssl()) & SSL_RECEIVED_SHUTDOWN, SSL_RECEIVED_SHUTDOWN);
}

TEST_F(Tls, SpeaksTls12AndNothingOlder) {
  serve();
  TlsClient client(port);
  SSL_CTX_set_max_proto_version(client.context(), TLS1_2_VERSION);
  ASSERT_TRUE(client.connect(root));
  EXPECT_TRUE(client.usable());
  TlsClient old(port);
  SSL_CTX_set_max_proto_version(old.context(), TLS1_1_VERSION);
  SSL_CTX_set_security_level(old.context(), 0);
  EXPECT_FALSE(old.connect(root));
}

TEST_F(Tls, AgreesOnAProtocolOrTurnsAway) {
  options.alpn = {"h2"};
  serve();
  TlsClient both(port);
  ASSERT_TRUE(both.connect(root, nullptr, "\x08http/1.1\x02h2"));
  EXPECT_EQ(both.alpn(), "h2");
  TlsClient none(port);
  ASSERT_TRUE(none.connect(root));
  EXPECT_TRUE(none.usable());
  TlsClient other(port);
  EXPECT_FALSE(other.connect(root, nullptr, "\x08http/1.1"));
}

TEST_F(Tls, AsksForAClientCertificateWhereTheyAreWanted) {
  const testing::TestCertificate clients("clients");
  options.client_ca_file = folder / "clients.pem";
  clients.write(options.client_ca_file, folder / "clients.key");
  serve();
  const testing::TestCertificate good("good", &clients);
  TlsClient welcome(port);
  ASSERT_TRUE(welcome.connect(root, &good));
  EXPECT_TRUE(welcome.usable());
  const testing::TestCertificate stranger("stranger");
  for (const testing::TestCertificate* shown :
       {static_cast<const testing::TestCertificate*>(nullptr), &stranger}) {
    TlsClient client(port);
    EXPECT_FALSE(client.connect(root, shown) && client.usable());
  }
}

TEST_F(Tls, OutlivesWhoDoesNotSpeakTls) {
  serve();
  {
    TlsClient plain(port);
    const std::string_view request = "GET / HTTP/1.1\r\nHost: weir\r\n\r\n";
    EXPECT_GT(::send(plain.fd(), request.data(), request.size(), MSG_NOSIGNAL), 0);
    std::array<char, 64> answer{};
    while (::recv(plain.fd(), answer.data(), answer.size(), 0) > 0) {
    }
    TlsClient gone(port);
  }
  TlsClient client(port);
  ASSERT_TRUE(client.connect(root));
  EXPECT_TRUE(client.usable());
}

TEST_F(Tls, TakesRenewedFilesForNewConnections) {
  serve();
  TlsClient before(port);
  ASSERT_TRUE(before.connect(root));
  const testing::TestCertificate renewed("renewed");
  renewed.write(options.cert_file, options.key_file);
  transport->refresh();
  EXPECT_EQ(transport->reloads(), 1U);
  EXPECT_EQ(last_reload, "");
  TlsClient after(port);
  ASSERT_TRUE(after.connect(renewed));
  EXPECT_TRUE(after.usable());
  EXPECT_TRUE(before.usable());
  // Nothing has changed: nothing is read.
  transport->refresh();
  EXPECT_EQ(transport->reloads(), 1U);
}

TEST_F(Tls, KeepsTheLastGoodFiles) {
  serve();
  const testing::TestCertificate other("other");
  other.write(options.cert_file, folder / "other.key");  // the key has not followed yet
  transport->refresh();
  EXPECT_EQ(transport->reloads(), 0U);
  ASSERT_TRUE(last_reload);
  EXPECT_THAT(*last_reload, HasSubstr("key.pem"));
  TlsClient client(port);
  ASSERT_TRUE(client.connect(root));
  EXPECT_TRUE(client.usable());
  other.write(options.cert_file, options.key_file);
  transport->refresh();
  EXPECT_EQ(transport->reloads(), 1U);
  TlsClient next(port);
  EXPECT_TRUE(next.connect(other));
}

TEST_F(Tls, LooksAtItsFilesWhenConnectionsCome) {
  serve();
  const testing::TestCertificate renewed("renewed");
  renewed.write(options.cert_file, options.key_file);
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  bool seen = false;
  while (!seen && std::chrono::steady_clock::now() < deadline) {
    TlsClient client(port);
    seen = client.connect(renewed);
  }
  EXPECT_TRUE(seen);
}

TEST_F(Tls, SaysWhichFileIsWrong) {
  const auto message = [this] {
    const auto opened = TlsTransport::open(options, Clock::real());
    return opened ? "" : opened.error().message;
  };
  EXPECT_EQ(message(), "");
  const TlsOptions good = options;
  options.cert_file = folder / "nowhere.pem";
  EXPECT_THAT(message(), HasSubstr("nowhere.pem"));
  options = good;
  options.client_ca_file = folder / "no-ca.pem";
  EXPECT_THAT(message(), HasSubstr("no-ca.pem"));
  options = good;
  std::ofstream(options.key_file) << "not a key\n";
  EXPECT_THAT(message(), HasSubstr("key.pem"));
}

}  // namespace
}  // namespace weir::server
