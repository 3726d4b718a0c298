#include "base/key_digest.h"

#include <sodium.h>

#include <cstring>

namespace weir {
namespace {

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

KeyDigest KeyHasher::operator()(std::string_view bytes) const noexcept {
  static_assert(crypto_shorthash_siphashx24_BYTES == sizeof(KeyDigest));
  static_assert(crypto_shorthash_siphashx24_KEYBYTES == std::tuple_size_v<Secret>);
  KeyDigest digest;
  crypto_shorthash_siphashx24(reinterpret_cast<unsigned char*>(&digest), bytes_of(bytes),
                              bytes.size(), secret_.data());
  return digest;
}

KeyHasher::Secret KeyHasher::random_secret() {
  Secret secret{};
  randombytes_buf(secret.data(), secret.size());
  return secret;
}

ValueDigester ValueDigester::from_text(std::string_view text) {
  Secret secret{};
  crypto_generichash(secret.data(), secret.size(), bytes_of(text), text.size(), nullptr, 0);
  return ValueDigester(secret);
}

ValueDigester::Digest ValueDigester::operator()(std::string_view bytes) const noexcept {
  Digest digest{};
  crypto_generichash(reinterpret_cast<unsigned char*>(digest.data()), digest.size(),
                     bytes_of(bytes), bytes.size(), secret_.data(), secret_.size());
  return digest;
}

}  // namespace weir
