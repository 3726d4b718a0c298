#include "store/redis/tls_session.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <climits>
#include <utility>

namespace weir::store::redis {
Result<std::unique_ptr<TlsSession>> TlsSession::begin(std::shared_ptr<const TlsContext> context,
                                                      const std::string& server_name) {
  ERR_clear_error();
  std::unique_ptr<TlsSession> session(new TlsSession);
  session->context_ = std::move(context);
  if (auto ready = session->set_up(server_name); !ready) return ready.error();
  std::string nothing;
  session->advance(nothing);
  return session;
}

Result<void> TlsSession::set_up(const std::string& server_name) {
  ssl_ = SSL_new(context_->get());
  in_ = BIO_new(BIO_s_mem());
  out_ = BIO_new(BIO_s_mem());
  if (ssl_ == nullptr || in_ == nullptr || out_ == nullptr) {
    return Error{ErrorCode::resource_exhausted, "store.tls: out of memory"};
  }
  SSL_set_bio(ssl_, in_, out_);
  SSL_set_connect_state(ssl_);
  X509_VERIFY_PARAM* const expected = SSL_get0_param(ssl_);
  // An address is looked for among the certificate's addresses, and is no name to ask for.
  if (X509_VERIFY_PARAM_set1_ip_asc(expected, server_name.c_str()) == 1) return {};
  X509_VERIFY_PARAM_set_hostflags(expected, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  if (X509_VERIFY_PARAM_set1_host(expected, server_name.c_str(), 0) != 1 ||
      SSL_set_tlsext_host_name(ssl_, server_name.c_str()) != 1) {
    return Error{ErrorCode::invalid_argument,
                 "store.tls.server_name: '" + server_name + "' is no name or address"};
  }
  return {};
}

TlsSession::~TlsSession() {
  // Until they are the session's, the two are ours.
  if (ssl_ == nullptr || SSL_get_rbio(ssl_) == nullptr) {
    BIO_free(in_);
    BIO_free(out_);
  }
  SSL_free(ssl_);
}

TlsSession::State TlsSession::received(std::string_view bytes, std::string& plain) {
  while (!bytes.empty() && state_ != State::failed && state_ != State::ended) {
    const auto size = static_cast<int>(std::min<std::size_t>(bytes.size(), INT_MAX));
    const int taken = BIO_write(in_, bytes.data(), size);
    if (taken <= 0) return fail();
    bytes.remove_prefix(static_cast<std::size_t>(taken));
    advance(plain);
  }
  return state_;
}

TlsSession::State TlsSession::send(std::string_view plain) {
  while (!plain.empty() && state_ == State::open) {
    std::size_t written = 0;
    if (SSL_write_ex(ssl_, plain.data(), plain.size(), &written) != 1) return fail();
    plain.remove_prefix(written);
  }
  collect();
  return state_;
}

TlsSession::State TlsSession::advance(std::string& plain) {
  if (state_ == State::handshake) {
    const int done = SSL_do_handshake(ssl_);
    collect();
    if (done != 1) {
      return SSL_get_error(ssl_, done) == SSL_ERROR_WANT_READ ? state_ : fail();
    }
    state_ = State::open;
  }
  std::array<char, 16 * 1024> read;
  for (;;) {
    std::size_t size = 0;
    const int done = SSL_read_ex(ssl_, read.data(), read.size(), &size);
    if (done == 1) {
      plain.append(read.data(), size);
      continue;
    }
    const int error = SSL_get_error(ssl_, done);
    collect();
    if (error == SSL_ERROR_WANT_READ) return state_;
    if (error == SSL_ERROR_ZERO_RETURN) return state_ = State::ended;
    return fail();
  }
}

TlsSession::State TlsSession::fail() {
  const long verified = SSL_get_verify_result(ssl_);
  problem_ = verified != X509_V_OK ? std::string("the server's certificate: ") +
                                         X509_verify_cert_error_string(verified)
                                   : tls_complaint();
  ERR_clear_error();
  collect();  // the alert that says so
  return state_ = State::failed;
}

void TlsSession::collect() {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(out_, &bytes);
  if (size <= 0) return;
  output_.append(bytes, static_cast<std::size_t>(size));
  BIO_reset(out_);
}

}  // namespace weir::store::redis
