#include "server/tls/tls_context.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <new>

namespace weir::server {
namespace {

// The library's last word on what went wrong.
std::string reason() {
  const unsigned long error = ERR_peek_last_error();
  const char* text = error == 0 ? nullptr : ERR_reason_error_string(error);
  ERR_clear_error();
  return text == nullptr ? "cannot be read" : text;
}

Error bad_file(const char* what, const std::string& file, const std::string& why) {
  return {ErrorCode::invalid_argument, std::string("tls: ") + what + " '" + file + "': " + why};
}

// Instead of asking a terminal for a passphrase.
int no_passphrase(char*, int, int, void*) {
  return 0;
}

int select_alpn(SSL*, const unsigned char** chosen, unsigned char* size,
                const unsigned char* offered, unsigned int offered_size, void* ours) {
  const auto& names = *static_cast<const std::string*>(ours);
  unsigned char* found = nullptr;
  const int outcome =
      SSL_select_next_proto(&found, size, reinterpret_cast<const unsigned char*>(names.data()),
                            static_cast<unsigned int>(names.size()), offered, offered_size);
  if (outcome != OPENSSL_NPN_NEGOTIATED) return SSL_TLSEXT_ERR_ALERT_FATAL;
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

TlsContext::TlsContext(const TlsOptions& options) : context_(SSL_CTX_new(TLS_server_method())) {
  if (context_ == nullptr) throw std::bad_alloc();
  SSL_CTX_set_min_proto_version(context_, TLS1_2_VERSION);
  SSL_CTX_set_options(context_, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                    SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(context_, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                 SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_default_passwd_cb(context_, no_passphrase);
  for (const std::string& name : options.alpn) {
    alpn_ += static_cast<char>(name.size());
    alpn_ += name;
  }
  if (!alpn_.empty()) SSL_CTX_set_alpn_select_cb(context_, select_alpn, &alpn_);
}

TlsContext::~TlsContext() {
  SSL_CTX_free(context_);
}

Result<void> TlsContext::read_files(const TlsOptions& options) {
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(context_, options.cert_file.c_str()) != 1) {
    return bad_file("certificate", options.cert_file, reason());
  }
  if (SSL_CTX_use_PrivateKey_file(context_, options.key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    return bad_file("key", options.key_file, reason());
  }
  if (SSL_CTX_check_private_key(context_) != 1) {
    return bad_file("key", options.key_file, "is not the key of " + options.cert_file);
  }
  if (options.client_ca_file.empty()) return {};
  const char* ca = options.client_ca_file.c_str();
  if (SSL_CTX_load_verify_locations(context_, ca, nullptr) != 1) {
    return bad_file("client CA", options.client_ca_file, reason());
  }
  SSL_CTX_set_client_CA_list(context_, SSL_load_client_CA_file(ca));
  SSL_CTX_set_verify(context_, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  // A session that is resumed must come from a client that was verified under these files.
  static constexpr unsigned char kSessionContext[] = "weir";
  SSL_CTX_set_session_id_context(context_, kSessionContext, sizeof kSessionContext - 1);
  return {};
}

Result<std::shared_ptr<const TlsContext>> TlsContext::load(const TlsOptions& options) {
  const std::shared_ptr<TlsContext> context(new TlsContext(options));
  if (const auto read = context->read_files(options); !read) return read.error();
  return std::shared_ptr<const TlsContext>(context);
}

ssl_st* TlsContext::new_session() const {
  SSL* session = SSL_new(context_);
  if (session != nullptr) SSL_set_accept_state(session);
  return session;
}

}  // namespace weir::server
