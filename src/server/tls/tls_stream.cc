#include "server/tls/tls_stream.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <new>
#include <string>
#include <utility>

#include "server/lane.h"

namespace weir::server {
namespace {

// OpenSSL between two memory buffers; the socket's bytes come from and go to `inner`.
class TlsStream final : public Stream, private StreamOwner {
 public:
  TlsStream(Lane& lane, std::unique_ptr<Stream> inner, std::shared_ptr<const TlsContext> context)
      : lane_(lane),
        inner_(std::move(inner)),
        context_(std::move(context)),
        ssl_(context_->new_session()),
        in_(BIO_new(BIO_s_mem())),
        out_(BIO_new(BIO_s_mem())) {
    if (ssl_ == nullptr || in_ == nullptr || out_ == nullptr) throw std::bad_alloc();
    BIO_set_mem_eof_return(in_, -1);
    SSL_set_bio(ssl_, in_, out_);
    inner_->set_owner(*this);
  }
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;
  ~TlsStream() override { SSL_free(ssl_); }  // and both buffers

  void set_owner(StreamOwner& owner) override { owner_ = &owner; }

  void read(std::span<char> into) override {
    read_into_ = into;
    reading_ = true;
    if (advancing_) return;
    if (SSL_has_pending(ssl_) != 0 || BIO_ctrl_pending(in_) != 0 || ended_ || broken_) {
      return advance_later();
    }
    read_inner();
  }

  std::size_t write_some(std::span<const char> from) override {
    std::size_t taken = 0;
    while (taken < from.size() && can_encrypt()) taken += encrypt(from.subspan(taken));
    if (broken_) advance_later();
    return taken;
  }

  void write(std::span<const char> from) override {
    to_write_ = from;
    writing_ = true;
    if (!advancing_) advance_later();
  }

  void shutdown_send() override {
    if (handshaken_ && !broken_) SSL_shutdown(ssl_);
    shutting_ = true;
    flush();
  }

  void close() override {
    if (std::exchange(closing_, true)) return;
    inner_->close();
  }

  Peer peer() const override { return inner_->peer(); }

 private:
  // Plain bytes that become one piece of output.
  static constexpr std::size_t kPiece = 16U << 10U;
  // Output that the peer does not take, above which nothing more is read.
  static constexpr std::size_t kMostUnsent = 64U << 10U;

  void on_read(std::size_t bytes) override {
    inner_reading_ = false;
    BIO_write(in_, cipher_.data(), static_cast<int>(bytes));
    advance();
  }
  void on_end() override {
    inner_reading_ = false;
    ended_ = true;
    advance();
  }
  void on_written() override {
    inner_writing_ = false;
    unsent_.clear();
    flush();
    advance();
  }
  void on_failed() override {
    broken_ = true;
    advance();
  }
  void on_closed() override {
    inner_closed_ = true;
    closed_perhaps();
  }

  void closed_perhaps() {
    if (inner_closed_ && posted_ == 0) owner_->on_closed();
  }

  bool can_encrypt() const { return handshaken_ && !inner_writing_ && !broken_ && !shutting_; }

  // Encrypts the front of `from` and sends it on; how much that was.
  std::size_t encrypt(std::span<const char> from) {
    ERR_clear_error();
    const int size = static_cast<int>(std::min(from.size(), kPiece));
    const int taken = SSL_write(ssl_, from.data(), size);
    if (taken <= 0) {
      broken_ = true;
      return 0;
    }
    flush();
    return static_cast<std::size_t>(taken);
  }

  // Gives the socket what there is for it.
  void flush() {
    if (inner_writing_ || closing_) return;
    char* data = nullptr;
    const long size = BIO_get_mem_data(out_, &data);
    if (size > 0) {
      const std::span<const char> all(data, static_cast<std::size_t>(size));
      const std::size_t sent = inner_->write_some(all);
      if (sent < all.size()) unsent_.assign(all.begin() + static_cast<long>(sent), all.end());
      BIO_reset(out_);
      if (!unsent_.empty()) {
        inner_writing_ = true;
        return inner_->write(unsent_);
      }
    }
    if (shutting_ && !std::exchange(shut_, true)) inner_->shutdown_send();
  }

  void read_inner() {
    if (inner_reading_ || ended_ || broken_ || closing_) return;
    if (unsent_.size() + BIO_ctrl_pending(out_) > kMostUnsent) return;
    inner_reading_ = true;
    inner_->read(cipher_);
  }

  // From inside a call of the owner, who may not be called back before it returns.
  void advance_later() {
    ++posted_;
    lane_.post([this] {
      --posted_;
      if (closing_) return closed_perhaps();
      advance();
    });
  }

  // Does all that can be done with what has come.
  void advance() {
    if (closing_) return;
    advancing_ = true;
    while (!closing_ && !broken_ && step()) {
    }
    advancing_ = false;
    if (closing_) return;
    flush();
    if (broken_) return tell_failed();
    if (reading_ || !handshaken_) read_inner();
  }

  // True where something came of it, and more may.
  bool step() {
    if (!handshaken_ && !shake_hands()) return false;
    return write_step() || read_step();
  }

  bool shake_hands() {
    ERR_clear_error();
    const int outcome = SSL_do_handshake(ssl_);
    flush();
    if (outcome == 1) {
      handshaken_ = true;
      return true;
    }
    if (SSL_get_error(ssl_, outcome) != SSL_ERROR_WANT_READ || ended_) broken_ = true;
    return false;
  }

  bool write_step() {
    if (!writing_ || !can_encrypt()) return false;
    if (!to_write_.empty()) to_write_ = to_write_.subspan(encrypt(to_write_));
    if (!to_write_.empty() || inner_writing_) return !broken_ && !inner_writing_;
    writing_ = false;
    owner_->on_written();
    return true;
  }

  bool read_step() {
    if (!reading_) return false;
    ERR_clear_error();
    const int bytes = SSL_read(ssl_, read_into_.data(), static_cast<int>(read_into_.size()));
    if (bytes > 0) {
      reading_ = false;
      owner_->on_read(static_cast<std::size_t>(bytes));
      return true;
    }
    const int error = SSL_get_error(ssl_, bytes);
    const bool end = error == SSL_ERROR_ZERO_RETURN || (error == SSL_ERROR_WANT_READ && ended_);
    if (end) {
      reading_ = false;
      ended_ = true;
      owner_->on_end();
      return true;
    }
    if (error != SSL_ERROR_WANT_READ) broken_ = true;
    return false;
  }

  void tell_failed() {
    if (std::exchange(told_, true)) return;
    owner_->on_failed();
  }

  Lane& lane_;
  std::unique_ptr<Stream> inner_;
  std::shared_ptr<const TlsContext> context_;
  SSL* ssl_;
  BIO* in_;   // owned by ssl_
  BIO* out_;  // owned by ssl_
  StreamOwner* owner_ = nullptr;
  std::span<char> read_into_;
  std::span<const char> to_write_;
  std::string unsent_;  // given to inner_, not taken yet
  int posted_ = 0;
  bool handshaken_ = false;
  bool reading_ = false;  // the owner waits for bytes
  bool writing_ = false;  // the owner waits until to_write_ is taken
  bool inner_reading_ = false;
  bool inner_writing_ = false;
  bool advancing_ = false;
  bool ended_ = false;     // the peer sends nothing more
  bool broken_ = false;    // nothing can be read or written
  bool told_ = false;      // of which the owner knows
  bool shutting_ = false;  // the owner sends nothing more
  bool shut_ = false;      // and the socket was told
  bool closing_ = false;
  bool inner_closed_ = false;
  std::array<char, 4096> cipher_;
};

}  // namespace

std::unique_ptr<Stream> make_tls_stream(Lane& lane, std::unique_ptr<Stream> inner,
                                        std::shared_ptr<const TlsContext> context) {
  return std::make_unique<TlsStream>(lane, std::move(inner), std::move(context));
}

}  // namespace weir::server
