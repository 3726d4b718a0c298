// `weir journal` on journals and ledgers that are real.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "guard/held_reservation.h"
#include "guard/reservation_book.h"
#include "ledger/event_batch.h"
#include "ledger/journal.h"
#include "ledger/journal_story.h"
#include "ledger/settler.h"
#include "program.h"

namespace weir::cli_tests {
namespace {

using ledger::testing::append;
using ledger::testing::event_of;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct JournalVerb : ::testing::Test {
  std::string journal_folder() const { return folder.path() + "/journal"; }
  // Ten events of one unit; the fourth of more units than a call can have.
  void record() {
    auto journal = std::move(*ledger::Journal::open({.folder = journal_folder()}));
    for (std::uint64_t i = 1; i <= 10; ++i) {
      ledger::UsageEvent event = event_of(i);
      if (i == 4) event.units = std::uint64_t{1} << 40;
      ASSERT_TRUE(append(*journal, event));
    }
  }
  Outcome journal(std::vector<std::string> words) {
    words.insert(words.begin(), "journal");
    return weir(std::move(words), {.folder = folder.path()});
  }
  Folder folder;
};

// Whatever takes long says how far it is, and only to a terminal.
TEST_F(JournalVerb, ShowsHowFarItIsInALargeBook) {
  constexpr std::uint64_t kEvents = 20'000;
  {
    auto journal = std::move(*ledger::Journal::open({.folder = journal_folder()}));
    for (std::uint64_t i = 1; i <= kEvents; ++i) {
      ledger::UsageEvent event = event_of(i);
      const std::string tenant = "tenant " + std::to_string(i);
      event.tenant = tenant;
      ASSERT_TRUE(journal->follow({&event, 1}));
    }
  }
  const auto on_terminal = [&](const std::string& action) {
    return run_on_terminal({WEIR_PROGRAM, "journal", action, "journal"},
                           {.folder = folder.path(), .variables = {{"TERM", "xterm"}}})
        .out;
  };
  EXPECT_THAT(on_terminal("replay"), HasSubstr("of 20000 events"));
  const std::string verified = on_terminal("verify");
  EXPECT_THAT(verified, HasSubstr("of 20000 lines"));
  EXPECT_THAT(verified, HasSubstr("journal: 20000 events = 20000 settled"));
  EXPECT_THAT(on_terminal("export"), ::testing::Not(HasSubstr("of 20000 lines")))
      << "among its own lines a bar is only in the way";
  const Outcome exported = journal({"export", "journal"});
  EXPECT_EQ(exported.err, "");
  EXPECT_EQ(std::count(exported.out.begin(), exported.out.end(), '\n'), 20'001);
}

TEST_F(JournalVerb, FollowsEventsFromTheJournalToTheLedger) {
  record();
  const Outcome before = journal({"status", "journal"});
  EXPECT_EQ(before.exit_code, 0) << before.err;
  EXPECT_THAT(before.out, StartsWith("journal: 10 events recorded, 0 settled, 10 waiting, 0 in"));
  EXPECT_THAT(before.out, HasSubstr("nothing was settled yet"));

  const Outcome listed = journal({"list", "journal", "--most", "2"});
  EXPECT_EQ(listed.out,
            "1  2023-11-14T22:13:20Z  acme  export  1000 per day by account  1 unit, without the "
            "store\n"
            "2  2023-11-14T22:13:20Z  acme  export  1000 per day by account  1 unit, without the "
            "store\n");
  EXPECT_EQ(listed.err, "weir: 8 more are not shown; --most N shows so many\n");
  EXPECT_EQ(journal({"list", "journal"}).err, "");
  EXPECT_EQ(journal({"list", "journal", "--most", "2", "--json"}).err, "");

  EXPECT_EQ(journal({"verify", "journal"}).exit_code, 3) << "there is no ledger to hold it against";

  const Outcome replayed = journal({"replay", "journal"});
  EXPECT_EQ(replayed.exit_code, 1) << "one was put aside";
  EXPECT_EQ(replayed.out, "9 events settled, 1 put aside (weir journal quarantine says why)\n");
  EXPECT_EQ(replayed.err, "") << "no bar where nobody looks";

  const Outcome aside = journal({"quarantine", "journal"});
  EXPECT_THAT(aside.out, StartsWith("4  2023-11-14T22:13:20Z  acme"));
  EXPECT_THAT(aside.out, HasSubstr("no call has so many"));

  const Outcome verified = journal({"verify", "journal"});
  EXPECT_EQ(verified.exit_code, 0) << verified.out;
  EXPECT_THAT(verified.out, HasSubstr("journal: 10 events = 9 settled + 0 waiting + 1 in"));
  EXPECT_THAT(verified.out, HasSubstr("\nbalanced\n"));

  const Outcome exported = journal({"export", "journal"});
  EXPECT_EQ(
      exported.out,
      "tenant,route,rule,window_start,window_seconds,events,units,overspent,forgiven,billed\n"
      "\"acme\",\"export\",\"1000 per day by account\",2023-11-14T00:00:00Z,86400,9,9,0,0,9\n");
}

// A worker that never came back left its reservations standing, and their usage on nobody's bill.
TEST_F(JournalVerb, EndsWhatAWorkerReservedThatDoesNotRun) {
  const Instant now = Clock::real().now();
  constexpr Nanos kHour = std::chrono::hours(1);
  {
    auto journal = std::move(*ledger::Journal::open({.folder = journal_folder()}));
    std::uint64_t made = 0;
    const auto reserve = [&](OnExpiry how, Instant expires) {
      guard::HeldReservation held;
      held.reserved = 8;
      held.so_far = 12;  // beyond it: billed, and nobody's overspend, for no limit is asked
      held.charges.emplace_back();
      held.terms = {.expire = kHour, .on_expiry = how};
      held.expires = expires;
      ASSERT_TRUE(ledger::encode(event_of(++made), held.events.emplace_back()));
      std::vector<ledger::Note> notes{
          guard::ReservationBook::note_of(std::to_string(made), held, now)};
      notes.back().stands = true;
      ASSERT_TRUE(append(*journal, {}, std::move(notes)));
    };
    reserve(OnExpiry::full, now - kHour);
    reserve(OnExpiry::last_heartbeat, now - kHour);
    reserve(OnExpiry::zero, now - kHour);
    reserve(OnExpiry::full, now + kHour);
  }
  EXPECT_THAT(journal({"status", "journal"}).out, HasSubstr("\n4 reservations stand\n"));
  EXPECT_THAT(journal({"status", "journal", "--json"}).out, HasSubstr("\"reservations\":4,"));
  const Outcome replayed = journal({"replay", "journal"});
  EXPECT_EQ(replayed.exit_code, 0) << replayed.err;
  EXPECT_EQ(replayed.out, "2 events settled; 3 reservations ended; 1 reservation stands\n");
  EXPECT_THAT(journal({"export", "journal"}).out, HasSubstr(",2,20,0,0,20\n"));
  EXPECT_EQ(journal({"replay", "journal"}).out, "0 events settled; 1 reservation stands\n");
  EXPECT_THAT(journal({"replay", "journal", "--json"}).out,
              HasSubstr("\"reservations_ended\":0,\"reservations\":1}"));
  EXPECT_THAT(journal({"status", "journal"}).out, HasSubstr("\n1 reservation stands\n"));
}

TEST_F(JournalVerb, SaysTheSameAsJson) {
  record();
  ASSERT_EQ(journal({"replay", "journal", "--json"}).exit_code, 1);
  const auto status = nlohmann::json::parse(journal({"status", "journal", "--json"}).out);
  EXPECT_EQ(status["settled"], 9);
  EXPECT_EQ(status["ledger_units"], 9);
  const auto aside = nlohmann::json::parse(journal({"quarantine", "journal", "--json"}).out);
  EXPECT_EQ(aside["number"], 4);
  EXPECT_EQ(aside["units"], std::uint64_t{1} << 40);
  const auto verified = nlohmann::json::parse(journal({"verify", "journal", "--json"}).out);
  EXPECT_EQ(verified["balanced"], true);
  const auto line = nlohmann::json::parse(journal({"export", "journal", "--json"}).out);
  EXPECT_EQ(line["tenant"], "acme");
  EXPECT_EQ(line["billed"], 9);
}

TEST_F(JournalVerb, TellsWhatWasPutAsideAgain) {
  record();
  ASSERT_EQ(journal({"replay", "journal"}).exit_code, 1);
  const Outcome again = journal({"replay", "journal", "--quarantined"});
  EXPECT_EQ(again.exit_code, 1) << "its content is what it was";
  EXPECT_THAT(again.out, HasSubstr("0 events settled, 1 put aside"));
  const Outcome verified = journal({"verify", "journal"});
  EXPECT_EQ(verified.exit_code, 0) << verified.out;
  EXPECT_THAT(verified.out, HasSubstr("1 in quarantine + 1 replayed"));
}

TEST_F(JournalVerb, NoticesABookThatDoesNotBalance) {
  record();
  ASSERT_EQ(journal({"replay", "journal"}).exit_code, 1);
  auto db = ledger::Database::open({.path = journal_folder() + "/ledger.db"});
  ASSERT_TRUE(db);
  ASSERT_TRUE(db->run("UPDATE lines SET units = units - 1"));
  const Outcome verified = journal({"verify", "journal"});
  EXPECT_EQ(verified.exit_code, 1);
  EXPECT_THAT(verified.out, HasSubstr("does not balance: 8 units in the lines and 9 billed"));
}

TEST_F(JournalVerb, ReadsBesideAServerAndSettlesOnlyWithoutOne) {
  record();
  const auto holder = ledger::Journal::open({.folder = journal_folder()});
  ASSERT_TRUE(holder);
  EXPECT_EQ(journal({"status", "journal"}).exit_code, 0);
  const Outcome refused = journal({"replay", "journal"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("another process"));
}

TEST_F(JournalVerb, FindsTheJournalThatAPolicyNames) {
  record();
  folder.write("metered.yaml",
               "journal: journal\ninputs: [account]\nroutes: {export: {limits: [{requests: 5, per: "
               "day, by: [account], meter: true}], protects: revenue, overspend: {cap: 5}}}\n");
  EXPECT_THAT(journal({"status", "metered.yaml"}).out, StartsWith("journal: 10 events"));
  EXPECT_EQ(journal({"status", "weir.yaml"}).exit_code, 2) << "a policy without a journal";
}

// A bill that nobody can read was status "0 settled" and exit status 0.
TEST_F(JournalVerb, SaysThatItsLedgerCannotBeRead) {
  record();
  const Outcome nonsense = journal({"status", "journal", "--ledger", "nonsense"});
  EXPECT_EQ(nonsense.exit_code, 2);
  EXPECT_THAT(nonsense.err, HasSubstr("allowed: sqlite:PATH, postgresql://"));
  const Outcome away =
      journal({"status", "journal", "--ledger", "postgresql://weir@127.0.0.1:1/weir"});
  EXPECT_EQ(away.exit_code, 3);
  EXPECT_THAT(away.out, StartsWith("journal: 10 events recorded"));
  EXPECT_THAT(away.err, HasSubstr("ledger: "));

  ASSERT_EQ(journal({"replay", "journal"}).exit_code, 1);
  std::filesystem::remove(journal_folder() + "/ledger.db");
  const Outcome gone = journal({"status", "journal"});
  EXPECT_EQ(gone.exit_code, 3) << "something was settled into it";
  EXPECT_THAT(gone.err, HasSubstr("ledger.db is not there"));
  EXPECT_FALSE(std::filesystem::exists(journal_folder() + "/ledger.db")) << "who looks makes none";
}

TEST_F(JournalVerb, DoesNotCallBalancedWhatWasEmptied) {
  record();
  ASSERT_EQ(journal({"replay", "journal"}).exit_code, 1);
  for (const char* ending : {"", "-wal"})
    std::filesystem::resize_file(journal_folder() + "/journal.db" + ending, 0);
  for (const char* action : {"status", "list", "verify", "replay"}) {
    const Outcome refused = journal({action, "journal"});
    EXPECT_EQ(refused.exit_code, 3) << action;
    EXPECT_THAT(refused.err, HasSubstr("is empty")) << action;
  }
  EXPECT_EQ(std::filesystem::file_size(journal_folder() + "/journal.db"), 0u);
}

TEST_F(JournalVerb, DoesNotCallBalancedWhatLostItsLog) {
  record();
  std::filesystem::resize_file(journal_folder() + "/journal.db-wal", 0);
  EXPECT_EQ(journal({"status", "journal"}).exit_code, 3);
  EXPECT_THAT(journal({"status", "journal"}).err, HasSubstr("once held 10"));
  EXPECT_EQ(journal({"replay", "journal"}).exit_code, 3);
}

TEST_F(JournalVerb, ChangesNothingByLooking) {
  record();
  ASSERT_EQ(journal({"replay", "journal"}).exit_code, 1);
  const auto bytes = [&] {
    std::map<std::string, std::string> all;
    for (const auto& each : std::filesystem::directory_iterator(journal_folder())) {
      // The index of a log is every reader's scratch paper.
      if (each.path().extension() == ".db-shm") continue;
      std::ifstream in(each.path());
      all[each.path().filename()] = {std::istreambuf_iterator<char>(in), {}};
    }
    return all;
  };
  const auto before = bytes();
  for (const char* action : {"status", "list", "quarantine", "verify", "export"})
    EXPECT_EQ(journal({action, "journal"}).exit_code, 0) << action;
  EXPECT_TRUE(bytes() == before);
}

TEST_F(JournalVerb, SaysTheWayOutOfWhatIsWrong) {
  EXPECT_THAT(journal({"status", "nowhere"}).err, HasSubstr("nowhere"));
  EXPECT_EQ(journal({"status", "."}).exit_code, 2);
  EXPECT_THAT(journal({"settle", "."}).err, HasSubstr("there is status, list, quarantine, verify"));
  record();
  EXPECT_EQ(journal({"list", "journal", "--most", "0"}).exit_code, 2);
  EXPECT_EQ(journal({"list", "journal", "--quarantined"}).exit_code, 2);
  EXPECT_EQ(journal({"list", "journal", "--accept-loss"}).exit_code, 2);
  const Outcome away =
      journal({"replay", "journal", "--ledger", "postgresql://weir@127.0.0.1:1/weir"});
  EXPECT_EQ(away.exit_code, 3);
  EXPECT_THAT(away.err, HasSubstr("ledger: "));
}

}  // namespace
}  // namespace weir::cli_tests
