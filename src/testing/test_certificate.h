#pragma once

// Certificates made on the spot.

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <string>

namespace weir::testing {

// A certificate for localhost and 127.0.0.1 with its key; signed by itself, or by another one.
class TestCertificate {
 public:
  explicit TestCertificate(const std::string& name, const TestCertificate* issuer = nullptr)
      : key_(EVP_EC_gen("P-256")), certificate_(X509_new()) {
    static long serial = 1;
    X509_set_version(certificate_, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate_), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(certificate_), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate_), 86400);
    X509_set_pubkey(certificate_, key_);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate_), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    const TestCertificate& signer = issuer == nullptr ? *this : *issuer;
    X509_set_issuer_name(certificate_, X509_get_subject_name(signer.certificate_));
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, signer.certificate_, certificate_, nullptr, nullptr, 0);
    add(context, NID_basic_constraints, issuer == nullptr ? "critical,CA:TRUE" : "CA:FALSE");
    add(context, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
    X509_sign(certificate_, signer.key_, EVP_sha256());
  }
  TestCertificate(const TestCertificate&) = delete;
  TestCertificate& operator=(const TestCertificate&) = delete;
  ~TestCertificate() {
    X509_free(certificate_);
    EVP_PKEY_free(key_);
  }

  void write(const std::string& cert_file, const std::string& key_file) const {
    std::FILE* file = std::fopen(cert_file.c_str(), "w");
    PEM_write_X509(file, certificate_);
    std::fclose(file);
    file = std::fopen(key_file.c_str(), "w");
    PEM_write_PrivateKey(file, key_, nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(file);
  }

  X509* certificate() const noexcept { return certificate_; }
  EVP_PKEY* key() const noexcept { return key_; }

 private:
  void add(X509V3_CTX& context, int id, const char* value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, id, value);
    X509_add_ext(certificate_, extension, -1);
    X509_EXTENSION_free(extension);
  }

  EVP_PKEY* key_;
  X509* certificate_;
};

}  // namespace weir::testing
