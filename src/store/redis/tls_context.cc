#include "store/redis/tls_context.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <cstdlib>

namespace weir::store::redis {

std::string tls_complaint() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "unknown reason" : reason;
}

namespace {

Error bad_file(const char* field, const std::string& file, const std::string& problem) {
  return Error{ErrorCode::invalid_argument,
               std::string("store.tls.") + field + ": " + file + ": " + problem};
}

// In place of OpenSSL's own, which asks on the terminal, and waits there.
int no_pass_phrase(char*, int, int, void* was_wanted) {
  *static_cast<bool*>(was_wanted) = true;
  return -1;
}

std::string system_place(const char* variable, const char* otherwise) {
  const char* const said = std::getenv(variable);
  return said != nullptr ? said : otherwise;
}

}  // namespace

Result<std::shared_ptr<const TlsContext>> TlsContext::read(const TlsFiles& files) {
  ERR_clear_error();
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  if (context == nullptr) return Error{ErrorCode::internal, "store.tls: " + tls_complaint()};
  const std::shared_ptr<const TlsContext> owner(new TlsContext(context));
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (files.ca.empty()) {
    SSL_CTX_set_default_verify_paths(context);
    ERR_clear_error();
  } else if (SSL_CTX_load_verify_locations(context, files.ca.c_str(), nullptr) != 1) {
    return bad_file("ca", files.ca, "no certificate could be read (" + tls_complaint() + ")");
  }
  if (files.cert.empty()) return owner;
  if (SSL_CTX_use_certificate_chain_file(context, files.cert.c_str()) != 1) {
    return bad_file("cert", files.cert, "no certificate could be read (" + tls_complaint() + ")");
  }
  bool encrypted = false;
  SSL_CTX_set_default_passwd_cb(context, no_pass_phrase);
  SSL_CTX_set_default_passwd_cb_userdata(context, &encrypted);
  const bool used = SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) == 1;
  SSL_CTX_set_default_passwd_cb_userdata(context, nullptr);
  if (used) return owner;
  const std::string why = tls_complaint();
  if (encrypted) {
    return bad_file("key", files.key, "is encrypted; a key without a pass phrase is needed");
  }
  return bad_file("key", files.key, "no key of this certificate (" + why + ")");
}

TlsContext::~TlsContext() {
  SSL_CTX_free(context_);
}

TlsContexts::Stamps TlsContexts::stamps_of(const TlsFiles& files) {
  const bool systems = files.ca.empty();
  const std::array<std::string, 4> names = {
      systems ? system_place(X509_get_default_cert_file_env(), X509_get_default_cert_file())
              : files.ca,
      systems ? system_place(X509_get_default_cert_dir_env(), X509_get_default_cert_dir())
              : std::string(),
      files.cert, files.key};
  Stamps stamps;
  for (std::size_t i = 0; i < names.size(); ++i) {
    struct stat found {};
    if (names[i].empty() || ::stat(names[i].c_str(), &found) != 0) continue;
    stamps[i] = {found.st_dev, found.st_ino, found.st_size, found.st_mtim.tv_sec,
                 found.st_mtim.tv_nsec};
  }
  return stamps;
}

Result<std::shared_ptr<const TlsContext>> TlsContexts::of(const TlsFiles& files) {
  // From before they are read: what is written meanwhile is read the next time.
  const Stamps stamps = stamps_of(files);
  Read& last = read_[{files.ca, files.cert, files.key}];
  if (last.context && last.stamps == stamps) return last.context;
  ++reads_;
  auto read = TlsContext::read(files);
  if (read) {
    last = {stamps, *std::move(read)};
  } else if (!last.context) {
    return read;
  }
  return last.context;
}

}  // namespace weir::store::redis
