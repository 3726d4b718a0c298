#include "server/admin/admin_access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

namespace weir::server {
namespace {

using ::testing::HasSubstr;

const std::string kToken = "0123456789abcdef";

using Fields = std::vector<http::Field>;

// A request with the given fields.
struct Asked {
  explicit Asked(Fields given) : fields(std::move(given)) { request.fields = fields; }
  Fields fields;
  http::Request request;
};

AdminAccess access(const std::string& address, const char* token = kToken.c_str()) {
  return {parse_address(address).value(), AdminToken::read("", token).value()};
}

int read_status(const AdminAccess& door, const char* host) {
  return door.may_read(Asked(Fields{{"host", host}}).request).status;
}

TEST(AdminAccess, AnswersOnLoopbackOnlyToItsOwnNames) {
  const AdminAccess door = access("127.0.0.1:6070");
  for (const char* host : {"127.0.0.1:6070", "localhost:6070", "LocalHost", "[::1]:6070", "[::1]",
                           "127.0.0.1", "10.1.2.3:99"}) {
    EXPECT_EQ(read_status(door, host), 0) << host;
  }
  for (const char* host : {"evil.example", "evil.example:6070", "127.0.0.1.evil.example:6070",
                           "localhost.evil.example", "evil.localhost.", "", "[evil", ":6070",
                           "127.0.0.1x", "0x7f000001", "2130706433"}) {
    EXPECT_EQ(read_status(door, host), 403) << host;
  }
  EXPECT_EQ(door.may_read(Asked(Fields{}).request).status, 0);  // HTTP/1.0: no browser
}

TEST(AdminAccess, AnswersToAnyNameWhereItWasToldToListenBeyondTheMachine) {
  EXPECT_EQ(read_status(access("0.0.0.0:6070"), "weir.monitoring.svc:6070"), 0);
  EXPECT_EQ(read_status(access("unix:/run/weir.sock"), "anything"), 0);
}

TEST(AdminAccess, ChangesNeedTheToken) {
  const AdminAccess door = access("127.0.0.1:0");
  const auto status = [&](const std::string& authorization) {
    return door.may_change(Asked(Fields{{"Authorization", authorization}}).request).status;
  };
  EXPECT_EQ(status("Bearer " + kToken), 0);
  EXPECT_EQ(status("bearer " + kToken), 0);
  for (const std::string& wrong :
       {std::string(), std::string("Bearer"), std::string("Bearer "), kToken, "Basic " + kToken,
        "Bearer " + kToken + "x", "Bearer  " + kToken, "Bearer " + kToken.substr(1),
        "Bearer " + std::string(kToken.size(), '\0'), std::string("Bearer 1123456789abcdef")}) {
    EXPECT_EQ(status(wrong), 401) << wrong;
  }
  const Asked twice(Fields{{"Authorization", "Bearer " + kToken}, {"Authorization", "Bearer x"}});
  EXPECT_EQ(door.may_change(twice.request).status, 401);
  EXPECT_THAT(std::string(door.may_change(Asked(Fields{}).request).lines),
              HasSubstr("WWW-Authenticate: Bearer"));
}

TEST(AdminAccess, WithoutATokenNothingCanBeChanged) {
  const AdminAccess door = access("127.0.0.1:0", nullptr);
  EXPECT_EQ(door.may_change(Asked(Fields{}).request).status, 403);
  EXPECT_EQ(door.may_change(Asked(Fields{{"Authorization", "Bearer "}}).request).status, 403);
  EXPECT_EQ(access("127.0.0.1:0", "").may_change(Asked(Fields{}).request).status, 403);
}

TEST(AdminToken, ComesFromAFileBeforeTheEnvironment) {
  const std::string path =
      (std::filesystem::path(::testing::TempDir()) / ("weir_token_" + std::to_string(::getpid())))
          .string();
  std::ofstream(path) << "token-in-the-file\r\nsecond line";
  const AdminToken token = AdminToken::read(path, kToken.c_str()).value();
  EXPECT_TRUE(token.matches("token-in-the-file"));
  EXPECT_FALSE(token.matches(kToken));
  std::filesystem::remove(path);
  const auto gone = AdminToken::read(path, kToken.c_str());
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ErrorCode::not_found);
}

TEST(AdminToken, RefusesWhatIsNoToken) {
  for (const std::string& text :
       {std::string("short"), std::string(15, 'a'), std::string(1025, 'a'),
        std::string("has a blank in it"), std::string("caf\xc3\xa9-caf\xc3\xa9-caf\xc3\xa9")}) {
    EXPECT_FALSE(AdminToken::read("", text.c_str())) << text;
  }
  EXPECT_TRUE(AdminToken::read("", std::string(1024, 'a').c_str()));
}

TEST(AdminToken, OfAFileWithoutEndReadsNoMoreThanItsBound) {
  const auto token = AdminToken::read("/dev/zero", nullptr);
  ASSERT_FALSE(token);
  EXPECT_NE(token.error().message.find("has more than 1024 bytes"), std::string::npos)
      << token.error().message;
}

}  // namespace
}  // namespace weir::server
