// What becomes of metered usage when a server ends.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "ledger/ledger.h"
#include "server/serve/served_process.h"

namespace weir::server {
namespace {

using ::testing::HasSubstr;

const std::string kJournaled =
    "journal: {folder: JOURNAL, within: 10ms}\n"
    "inputs: [account]\n"
    "routes:\n"
    "  export:\n"
    "    limits: [{requests: 100, per: day, by: [account], meter: true}]\n"
    "    protects: revenue\n"
    "    overspend: {cap: 10}\n";
const std::string kExport = R"({"route":"export","descriptors":{"account":"acme"}})";

// The loss was a line in the log, and the server had ended well.
TEST(ServedJournal, EndsBadlyWhereUsageThatWasServedIsLost) {
  std::string journal;
  ServedProcess weir(kJournaled, [&](ServeOptions& options) {
    journal = options.policy_path + ".journal";
    options.journal_folder = journal;
    options.drain_delay = Nanos::zero();
  });
  ASSERT_TRUE(weir.ready()) << weir.err();
  ASSERT_EQ(weir.http("POST", "/v1/check", kExport).status, 200);
  ASSERT_TRUE(
      ServedProcess::within([&] { return std::filesystem::exists(journal + "/journal.db-mark"); }));
  // Nothing can be written there any more.
  std::filesystem::rename(journal, journal + ".away");
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(weir.http("POST", "/v1/check", kExport).status, 200) << "the store counts them";
  weir.signal(SIGTERM);
  EXPECT_EQ(weir.wait(), 3);
  EXPECT_THAT(weir.err(), HasSubstr("usage events of served calls were never recorded"));
}

void keep_journal(ServeOptions& options) {
  options.journal_folder = options.policy_path + ".journal";
  options.drain_delay = Nanos::zero();
}

TEST(ServedJournal, AnswersARepeatedRequestAsItDidAndChargesItOnce) {
  ServedProcess weir(kJournaled, keep_journal);
  ASSERT_TRUE(weir.ready()) << weir.err();
  const auto ask = [&](const std::string& body, const std::string& key) {
    return weir.http("POST", "/v1/check", body, "Idempotency-Key: " + key + "\r\n");
  };
  const auto first = ask(kExport, "a1");
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.body.find("replayed"), std::string::npos);
  EXPECT_THAT(first.body, HasSubstr("\"remaining\":99"));
  for (int i = 0; i < 3; ++i) {
    const auto again = ask(kExport, "a1");
    EXPECT_EQ(again.status, 200);
    EXPECT_THAT(again.body, HasSubstr("\"replayed\":true"));
  }
  const auto other = ask(R"({"route":"export","descriptors":{"account":"acme"},"cost":2})", "a1");
  EXPECT_EQ(other.status, 409);
  EXPECT_TRUE(other.has("Content-Type: application/problem+json"));
  EXPECT_THAT(other.body, HasSubstr("nothing was charged"));
  EXPECT_THAT(other.body,
              HasSubstr(R"("verdict":"refused","rung":"policy","reason":"key_reused")"));
  EXPECT_THAT(ask(kExport, "a2").body, HasSubstr("\"remaining\":98"));
  EXPECT_EQ(ask(kExport, "").status, 400);
  EXPECT_EQ(ask(kExport, std::string(256, 'k')).status, 400);
}

// The same route under its name as a domain charged every repetition.
TEST(ServedJournal, TakesTheNameOfARequestInTheFormOfADomainToo) {
  ServedProcess weir(kJournaled, keep_journal);
  ASSERT_TRUE(weir.ready()) << weir.err();
  const auto ask = [&](const std::string& more) {
    const std::string body =
        R"({"domain":"export","descriptors":[[{"key":"account","value":"acme"}]])" + more + "}";
    return weir.http("POST", "/v1/check", body, "Idempotency-Key: a1\r\n");
  };
  EXPECT_THAT(ask("").body, HasSubstr("\"remaining\":99"));
  for (int i = 0; i < 3; ++i) EXPECT_THAT(ask("").body, HasSubstr("\"replayed\":true"));
  const auto other = ask(",\"cost\":2");
  EXPECT_EQ(other.status, 409);
  EXPECT_THAT(other.body, HasSubstr("\"reason\":\"key_reused\""));
  // It is the same request in the other form.
  const std::string key = "Idempotency-Key: a1\r\n";
  EXPECT_THAT(weir.http("POST", "/v1/check", kExport, key).body, HasSubstr("\"replayed\":true"));
  EXPECT_THAT(weir.http("POST", "/v1/check", kExport).body, HasSubstr("\"remaining\":98"));
}

// It was the end of the process, and nobody was told why.
TEST(ServedJournal, AFileThatMayGrowNoMoreIsAFullDisk) {
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto limited = [&](rlim_t bytes) {
    const rlimit limit{bytes, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  };
  ServedProcess weir(kJournaled, [&](ServeOptions& options) {
    keep_journal(options);
    limited(16'384);  // of the child
  });
  limited(before.rlim_cur);
  ASSERT_TRUE(weir.ready()) << weir.err();
  // As before the disk is full: allowed as long as there is room to remember it.
  EXPECT_EQ(weir.http("POST", "/v1/check", kExport).status, 200);
  EXPECT_TRUE(
      ServedProcess::within([&] { return weir.err().find("journal_fails") != std::string::npos; }));
  weir.signal(SIGTERM);
  EXPECT_EQ(weir.wait(), 3) << "what it served is not recorded";
}

std::string member(const std::string& json, const std::string& name) {
  const std::size_t at = json.find("\"" + name + "\":\"");
  if (at == std::string::npos) return {};
  const std::size_t begin = at + name.size() + 4;
  return json.substr(begin, json.find('"', begin) - begin);
}

TEST(ServedJournal, ReservesAndSettles) {
  ServedProcess weir(kJournaled, keep_journal);
  ASSERT_TRUE(weir.ready()) << weir.err();
  const std::string ask =
      R"({"route":"export","descriptors":{"account":"acme"},"estimate":40,"expire_ms":60000)";
  EXPECT_EQ(weir.http("POST", "/v1/reserve", ask + "}").status, 400) << "says no on_expiry";
  EXPECT_THAT(weir.http("POST", "/v1/reserve", ask + R"(,"on_expiry":"never"})").body,
              HasSubstr("full, last_heartbeat, zero"));
  const auto reserved = weir.http("POST", "/v1/reserve", ask + R"(,"on_expiry":"full"})");
  ASSERT_EQ(reserved.status, 200) << reserved.body;
  EXPECT_THAT(reserved.body, HasSubstr("\"remaining\":60"));
  const std::string id = member(reserved.body, "reservation");
  ASSERT_EQ(id.size(), 32u);
  const auto settle = [&](const std::string& units) {
    return weir.http("POST", "/v1/settle",
                     R"({"reservation":")" + id + R"(","units":)" + units + "}");
  };
  const auto beat =
      weir.http("POST", "/v1/heartbeat", R"({"reservation":")" + id + R"(","units":7})");
  EXPECT_EQ(beat.status, 200);
  EXPECT_EQ(beat.body, "{\"expires_after_ms\":60000}\n");
  const auto settled = settle("25");
  EXPECT_EQ(settled.status, 200) << settled.body;
  EXPECT_EQ(settled.body, "{\"reserved\":40,\"units\":25,\"overdraft\":0}\n");
  EXPECT_EQ(settle("25").body,
            "{\"reserved\":40,\"units\":25,\"overdraft\":0,\"repeated\":true}\n");
  EXPECT_EQ(settle("26").status, 409);
  EXPECT_EQ(weir.http("POST", "/v1/settle", R"({"reservation":"x","units":1})").status, 404);
  EXPECT_THAT(weir.http("POST", "/v1/check", kExport).body, HasSubstr("\"remaining\":74"));
  EXPECT_EQ(weir.http("GET", "/v1/settle").status, 405);
}

// What was answered with 200 is on the bill, once, whenever the server was killed.
TEST(ServedJournal, BillsWhatItAcknowledgedHoweverOftenItIsKilled) {
  const std::string folder = ::testing::TempDir() + "/weir_killed_" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  std::atomic<std::uint64_t> acknowledged = 0;
  std::string policy = kJournaled;
  policy.replace(policy.find("requests: 100"), 13, "requests: 1000000");
  const auto life = [&](int round) {
    ServedProcess weir(policy, [&](ServeOptions& options) {
      options.journal_folder = folder + "/journal";
      options.drain_delay = Nanos::zero();
    });
    ASSERT_TRUE(weir.ready()) << weir.err();
    // A key is an answer that must be durable: settled reservations are.
    std::thread killer([&, before = acknowledged.load()] {
      // Wherever that is in its work; every other time once some of it is done, however slowly.
      if (round % 2 == 0) (void)ServedProcess::within([&] { return acknowledged > before; });
      std::this_thread::sleep_for(std::chrono::milliseconds(30 + 37 * (round % 5)));
      weir.signal(SIGKILL);
    });
    TestClient client(weir.http());
    for (;;) {
      const auto reserved = client.ask(
          "POST", "/v1/reserve",
          R"({"route":"export","descriptors":{"account":"acme"},"estimate":5,"expire_ms":86400000,)"
          R"("on_expiry":"zero"})");
      if (!reserved || reserved->status != 200) break;
      const auto settled = client.ask(
          "POST", "/v1/settle",
          R"({"reservation":")" + member(reserved->body, "reservation") + R"(","units":3})");
      if (!settled || settled->status != 200) break;
      acknowledged += 3;
    }
    killer.join();
    EXPECT_EQ(weir.wait(), 128 + SIGKILL);
  };
  constexpr int kKills = 10;
  for (int round = 0; round < kKills && !HasFatalFailure(); ++round) life(round);
  std::uint64_t units = 0;
  {
    ServedProcess weir(policy, [&](ServeOptions& options) {
      options.journal_folder = folder + "/journal";
      options.drain_delay = Nanos::zero();
    });
    ASSERT_TRUE(weir.ready()) << weir.err();
    ASSERT_TRUE(ServedProcess::within([&] {
      return weir.admin("GET", "/readyz").body.find("\"unsettled\":0,") != std::string::npos;
    }));
    const auto ledger = ledger::look_into_ledger("sqlite:" + folder + "/journal/ledger.db");
    ASSERT_TRUE(ledger) << ledger.error().message;
    EXPECT_TRUE((*ledger)->verify());
    ASSERT_TRUE((*ledger)->lines([&](const ledger::LedgerLine& line) {
      units += line.units;
      return true;
    }));
  }
  EXPECT_GT(acknowledged, 0u);
  EXPECT_GE(units, acknowledged);
  EXPECT_LE(units, acknowledged + 3 * kKills)
      << "at most the one a life that was cut in its answer";
  std::filesystem::remove_all(folder);
}

TEST(ServedJournal, EndsWellWhereAllOfItIsRecorded) {
  ServedProcess weir(kJournaled, [](ServeOptions& options) {
    options.journal_folder = options.policy_path + ".journal";
    options.drain_delay = Nanos::zero();
  });
  ASSERT_TRUE(weir.ready()) << weir.err();
  for (int i = 0; i < 3; ++i) ASSERT_EQ(weir.http("POST", "/v1/check", kExport).status, 200);
  weir.signal(SIGTERM);
  EXPECT_EQ(weir.wait(), 0);
  EXPECT_EQ(weir.err().find("never recorded"), std::string::npos);
}

}  // namespace
}  // namespace weir::server
