// What becomes of metered usage when a server ends.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "server/serve/served_process.h"

namespace weir::server {
namespace {

using ::testing::HasSubstr;

const std::string kPolicy =
    "journal: {folder: JOURNAL, within: 10ms}\n"
    "inputs: [account]\n"
    "routes:\n"
    "  export:\n"
    "    limits: [{requests: 100, per: day, by: [account], meter: true}]\n"
    "    protects: revenue\n"
    "    overspend: {cap: 10}\n";
const std::string kBody = R"({"route":"export","descriptors":{"account":"acme"}})";

// The loss was a line in the log, and the server had ended well.
TEST(ServedJournal, EndsBadlyWhereUsageThatWasServedIsLost) {
  std::string journal;
  ServedProcess weir(kPolicy, [&](ServeOptions& options) {
    journal = options.policy_path + ".journal";
    options.journal_folder = journal;
    options.drain_delay = Nanos::zero();
  });
  ASSERT_TRUE(weir.ready()) << weir.err();
  ASSERT_EQ(weir.http("POST", "/v1/check", kBody).status, 200);
  ASSERT_TRUE(
      ServedProcess::within([&] { return std::filesystem::exists(journal + "/journal.db-mark"); }));
  // Nothing can be written there any more.
  std::filesystem::rename(journal, journal + ".away");
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(weir.http("POST", "/v1/check", kBody).status, 200) << "the store counts them";
  weir.signal(SIGTERM);
  EXPECT_EQ(weir.wait(), 3);
  EXPECT_THAT(weir.err(), HasSubstr("usage events of served calls were never recorded"));
}

TEST(ServedJournal, EndsWellWhereAllOfItIsRecorded) {
  ServedProcess weir(kPolicy, [](ServeOptions& options) {
    options.journal_folder = options.policy_path + ".journal";
    options.drain_delay = Nanos::zero();
  });
  ASSERT_TRUE(weir.ready()) << weir.err();
  for (int i = 0; i < 3; ++i) ASSERT_EQ(weir.http("POST", "/v1/check", kBody).status, 200);
  weir.signal(SIGTERM);
  EXPECT_EQ(weir.wait(), 0);
  EXPECT_EQ(weir.err().find("never recorded"), std::string::npos);
}

}  // namespace
}  // namespace weir::server
