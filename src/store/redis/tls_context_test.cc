#include "store/redis/tls_context.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "testing/test_certificate.h"

namespace weir::store::redis {
namespace {

using testing::TestCertificate;

class TlsContextFiles : public ::testing::Test {
 protected:
  TlsContextFiles()
      : folder_(std::filesystem::path(::testing::TempDir()) /
                ("weir_tls_context_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
    renew("one");
  }
  ~TlsContextFiles() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  // As a careful hand replaces a file.
  void replace(const std::string& name, const std::string& by) const {
    std::filesystem::copy(path(by), path(name + ".new"),
                          std::filesystem::copy_options::overwrite_existing);
    std::filesystem::rename(path(name + ".new"), path(name));
  }
  void renew(const std::string& name) const {
    const TestCertificate authority(name + " authority");
    const TestCertificate client(name, &authority);
    authority.write(path(name + "-ca.pem"), path(name + "-ca.key"));
    client.write(path(name + ".pem"), path(name + ".key"));
    if (std::filesystem::exists(path("ca.pem"))) return;
    replace("ca.pem", name + "-ca.pem");
    replace("client.pem", name + ".pem");
    replace("client.key", name + ".key");
  }
  TlsFiles files() const {
    return {.ca = path("ca.pem"),
            .cert = path("client.pem"),
            .key = path("client.key"),
            .server_name = "localhost"};
  }

  const std::filesystem::path folder_;
};

TEST_F(TlsContextFiles, AreReadOnceHoweverManyConnectionsAreMade) {
  TlsContexts contexts;
  const auto first = contexts.of(files()).value();
  for (int i = 0; i < 50; ++i) EXPECT_EQ(contexts.of(files()).value(), first);
  TlsFiles elsewhere = files();
  elsewhere.server_name = "127.0.0.1";
  EXPECT_EQ(contexts.of(elsewhere).value(), first) << "the name is a connection's matter";
  EXPECT_EQ(contexts.reads(), 1u);
  renew("two");
  replace("ca.pem", "two-ca.pem");
  const auto second = contexts.of(files()).value();
  EXPECT_NE(second, first);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(contexts.of(files()).value(), second);
  EXPECT_EQ(contexts.reads(), 2u);
}

// The system's authorities are many: it is for them above all that they are read once.
TEST_F(TlsContextFiles, OfTheSystemAreReadOnceToo) {
  TlsContexts contexts;
  const TlsFiles systems{.ca = {}, .cert = {}, .key = {}, .server_name = "localhost"};
  const auto first = contexts.of(systems).value();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(contexts.of(systems).value(), first);
  EXPECT_EQ(contexts.reads(), 1u);
}

// A certificate is renewed before its key, or the other way round.
TEST_F(TlsContextFiles, ThatAreRenewedHalfWayLeaveWhatWasThere) {
  TlsContexts contexts;
  const auto first = contexts.of(files()).value();
  renew("two");
  replace("client.pem", "two.pem");
  EXPECT_EQ(contexts.of(files()).value(), first);
  EXPECT_EQ(contexts.of(files()).value(), first);
  replace("client.key", "two.key");
  const auto second = contexts.of(files()).value();
  EXPECT_NE(second, first);
  std::filesystem::remove(path("ca.pem"));
  EXPECT_EQ(contexts.of(files()).value(), second);
}

TEST_F(TlsContextFiles, ThatCouldNeverBeUsedAreSaidSo) {
  TlsContexts contexts;
  TlsFiles wrong = files();
  wrong.ca = path("nowhere.pem");
  EXPECT_NE(contexts.of(wrong).error().message.find("store.tls.ca: " + wrong.ca),
            std::string::npos);
  renew("two");
  wrong = files();
  wrong.key = path("two.key");
  EXPECT_NE(contexts.of(wrong).error().message.find("no key of this certificate"),
            std::string::npos);
}

// Nobody is asked for a pass phrase: a server has nobody at its terminal, and would wait for ever.
TEST_F(TlsContextFiles, OfAKeyThatIsEncryptedAreRefusedWithoutAPrompt) {
  const TestCertificate client("encrypted");
  client.write(path("client.pem"), path("plain.key"));
  std::FILE* const file = std::fopen(path("client.key").c_str(), "w");
  unsigned char phrase[] = "secret";
  ASSERT_EQ(
      PEM_write_PrivateKey(file, client.key(), EVP_aes_128_cbc(), phrase, 6, nullptr, nullptr), 1);
  std::fclose(file);
  ::testing::internal::CaptureStderr();
  const auto read = TlsContext::read(files());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message, "store.tls.key: " + path("client.key") +
                                      ": is encrypted; a key without a pass phrase is needed");
}

}  // namespace
}  // namespace weir::store::redis
