#include "guard/reservation_book.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ledger/journal_reader.h"
#include "ledger/journal_story.h"
#include "testing/forgetful_disk.h"
#include "testing/manual_clock.h"

namespace weir::guard {
namespace {

using namespace std::chrono_literals;
using GivenBack = ReservationBook::GivenBack;
using testing::ForgetfulDisk;
using testing::ManualClock;

// A book on a journal that is turned by hand, under a clock that is moved by hand.
class ReservationBookByHand : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kProcess = 7;

  void SetUp() override { begin(); }
  void TearDown() override { end(); }

  void begin() {
    book_ = std::make_unique<ReservationBook>(clock_);
    auto opened = ledger::Journal::open({.folder = folder_.path(),
                                         .within = 1ms,
                                         .vfs = disk_.name(),
                                         .log_pages = 6,
                                         .meet =
                                             [this](ledger::JournalFile& file) {
                                               return file.read_notes([this](const auto& note) {
                                                 EXPECT_TRUE(book_->restore(note));
                                               });
                                             },
                                         .clock = &clock_,
                                         .wake = [] {}});
    ASSERT_TRUE(opened) << opened.error().message;
    journal_ = std::move(*opened);
    book_->keep_in(*journal_);
    book_->be_driven(kProcess + ++lives_);
    book_->start({.give_back =
                      [this](const std::string& id, const HeldReservation&, std::uint64_t units,
                             std::function<void(GivenBack)> done) {
                        given_back_.emplace_back(id, units);
                        done(store_);
                      },
                  .take =
                      [this](const HeldReservation& held, std::uint64_t units,
                             std::function<void(ReservationBook::Taken)> done) {
                        asked_.push_back(units);
                        asked_as_.push_back(held.asked_as);
                        if (takes_ != GivenBack::yes) {
                          done({.units = units, .charged = 0, .how = takes_});
                          return;
                        }
                        const std::uint64_t taken = std::min(units, left_);
                        done({.units = taken, .charged = taken});
                      }});
  }
  // In order, as a process ends.
  void end() {
    if (book_) book_->stop();
    if (journal_) (void)journal_->close();
    journal_.reset();
    book_.reset();
  }

  // What the journal has to do, and then what the book has.
  void turn() {
    for (const bool before : {true, false}) {
      for (int i = 0; i < 4 && (i == 0 || journal_->writable()); ++i) (void)journal_->turn();
      if (before) (void)book_->turn();
    }
  }
  void pass(Nanos time) {
    for (const MonoTime until = clock_.mono() + time; clock_.mono() < until;) {
      clock_.advance(std::min(Nanos{500ms}, Nanos(until - clock_.mono())));
      turn();
    }
  }

  // A reservation on its way into the journal.
  std::pair<HeldReservation, std::vector<ledger::Note>> begin_reservation(const std::string& id,
                                                                          std::uint64_t units,
                                                                          ReservationTerms terms) {
    HeldReservation held{.reserved = units,
                         .terms = terms,
                         .expires = clock_.now() + terms.expire,
                         .events = {},
                         .charges = {{.identity = 1, .metered = true, .key = "acme"}}};
    ledger::UsageEvent event = ledger::testing::event_of(++events_, kProcess);
    event.units = units;
    EXPECT_TRUE(ledger::encode(event, held.events.emplace_back()));
    std::vector<ledger::Note> notes{ReservationBook::note_of(id, held, clock_.now())};
    notes.back().stands = true;
    return {std::move(held), std::move(notes)};
  }
  // One as it is once the journal has it.
  std::string reserve(std::uint64_t units, ReservationTerms terms) {
    const std::string id = book_->new_id();
    auto [held, notes] = begin_reservation(id, units, terms);
    bool durable = false;
    journal_->append({}, std::move(notes),
                     [&](const Result<void>& done) { durable = done.has_value(); });
    for (int i = 0; i < 4 && !durable; ++i) (void)journal_->turn();
    EXPECT_TRUE(durable);
    book_->open(id, std::move(held));
    return id;
  }
  Result<Settlement> settle(const std::string& id, std::uint64_t units) {
    std::optional<Result<Settlement>> told;
    book_->settle(id, units, [&](Result<Settlement> result) { told = std::move(result); });
    for (int i = 0; i < 4 && !told; ++i) (void)journal_->turn();
    if (!told) return Error{ErrorCode::internal, "nobody answered"};
    return *told;
  }
  // What is in the journal to be billed, event by event.
  std::vector<std::uint64_t> billed() {
    std::vector<std::uint64_t> units;
    auto reader =
        ledger::JournalReader::open(ledger::Journal::file_in(folder_.path(), disk_.name()));
    EXPECT_TRUE(reader);
    const auto events = reader->events(0, 1'000'000, 1'000'000);
    EXPECT_TRUE(events);
    for (const ledger::StoredEvent& event : *events) units.push_back(event.read()->units);
    return units;
  }
  using Units = std::vector<std::uint64_t>;

  ledger::testing::TemporaryFolder folder_;
  ForgetfulDisk disk_;
  ManualClock clock_;
  std::unique_ptr<ReservationBook> book_;
  std::unique_ptr<ledger::Journal> journal_;
  std::uint64_t lives_ = 0;
  std::uint64_t events_ = 0;
  GivenBack store_ = GivenBack::yes;
  std::uint64_t left_ = 1'000;  // of the limits
  std::vector<std::pair<std::string, std::uint64_t>> given_back_;
  Units asked_;
  std::vector<std::string> asked_as_;
  GivenBack takes_ = GivenBack::yes;
};

constexpr ReservationTerms kHour{.expire = 1h, .on_expiry = OnExpiry::full};

TEST_F(ReservationBookByHand, SettlesOnceAndSaysSoToWhoAsksAgain) {
  const std::string id = reserve(8, kHour);
  EXPECT_EQ(book_->size(), 1u);
  const auto settled = settle(id, 3);
  ASSERT_TRUE(settled) << settled.error().message;
  EXPECT_EQ(settled->reserved, 8u);
  EXPECT_EQ(settled->units, 3u);
  EXPECT_FALSE(settled->repeated);
  EXPECT_EQ(given_back_, (std::vector<std::pair<std::string, std::uint64_t>>{{id, 5}}));
  const auto again = settle(id, 3);
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->repeated);
  EXPECT_EQ(settle(id, 4).error().code, ErrorCode::failed_precondition);
  EXPECT_EQ(settle("another", 3).error().code, ErrorCode::not_found);
  EXPECT_EQ(billed(), Units{3});
  EXPECT_EQ(book_->size(), 0u);
  EXPECT_EQ(given_back_.size(), 1u);
}

TEST_F(ReservationBookByHand, TakesWhatIsMoreAndRecordsWhatTheLimitsHadNoRoomFor) {
  left_ = 2;
  const std::string id = reserve(4, kHour);
  const auto settled = settle(id, 9);
  ASSERT_TRUE(settled);
  EXPECT_EQ(settled->overdraft, 5u);
  EXPECT_EQ(asked_, Units{5});
  EXPECT_EQ(billed(), Units{9});
  EXPECT_TRUE(given_back_.empty());
}

TEST_F(ReservationBookByHand, StandsWhereTheDiskTakesNothingAndAsksTheLimitsOnce) {
  const std::string id = reserve(4, kHour);
  disk_.fail(ForgetfulDisk::Fault::sync, 1, ForgetfulDisk::Lasts::until_healed);
  for (int i = 0; i < 3; ++i) {
    const auto settled = settle(id, 6);
    ASSERT_FALSE(settled);
    EXPECT_EQ(settled.error().code, ErrorCode::unavailable);
  }
  EXPECT_EQ(asked_, Units{2}) << "an earlier try took them";
  EXPECT_EQ(book_->size(), 1u);
  disk_.heal();
  pass(1s);
  ASSERT_TRUE(settle(id, 5));
  EXPECT_EQ(billed(), Units{5});
  ASSERT_EQ(given_back_.size(), 1u) << "of six one";
  EXPECT_EQ(given_back_[0].second, 1u);
}

TEST_F(ReservationBookByHand, EndsWhatExpiresAsItWasToldTo) {
  const auto leave = [&](OnExpiry how) {
    const std::string id = reserve(8, {.expire = 10s, .on_expiry = how});
    EXPECT_TRUE(book_->heartbeat(id, 5));
    return id;
  };
  const std::string full = leave(OnExpiry::full);
  pass(9s);
  EXPECT_EQ(book_->size(), 1u);
  EXPECT_EQ(book_->heartbeat(full, 6).value(), 10s) << "it begins anew";
  pass(9s);
  EXPECT_EQ(book_->size(), 1u);
  pass(2s);
  EXPECT_EQ(book_->size(), 0u);
  EXPECT_EQ(billed(), Units{8});
  EXPECT_EQ(book_->heartbeat(full, 6).error().code, ErrorCode::failed_precondition);
  leave(OnExpiry::last_heartbeat);
  pass(12s);
  EXPECT_EQ(billed(), (Units{8, 5}));
  leave(OnExpiry::zero);
  pass(12s);
  EXPECT_EQ(billed(), (Units{8, 5})) << "and nothing of the last";
  EXPECT_EQ(book_->size(), 0u);
  EXPECT_NE(settle(full, 3).error().message.find("expired, and was settled as 8 units"),
            std::string::npos);
}

// A wall's clock that was set back kept reservations standing for as long as it was set back by,
// and one that was set ahead ended all of them at once.
TEST_F(ReservationBookByHand, ExpiresInItsTimeWhateverTheWallsClockIsSetTo) {
  const Nanos steps[] = {-1h, 24h, -400 * 24h, 400 * 24h};
  std::size_t ended = 0;
  for (const Nanos step : steps) {
    SCOPED_TRACE(std::to_string(step / 1h) + " h");
    const std::string id = reserve(8, {.expire = 60s, .on_expiry = OnExpiry::full});
    pass(20s);
    clock_.step_wall(step);
    pass(30s);
    EXPECT_EQ(book_->size(), 1u) << "not before its time";
    ASSERT_TRUE(book_->heartbeat(id, 1));
    clock_.step_wall(-step);
    pass(50s);
    EXPECT_EQ(book_->size(), 1u) << "nor after a heartbeat";
    clock_.step_wall(step);
    pass(12s);
    EXPECT_EQ(book_->size(), 0u) << "and no later";
    EXPECT_EQ(billed().size(), ++ended);
    EXPECT_FALSE(settle(id, 3)) << "which is known for a day";
    EXPECT_EQ(settle(id, 3).error().code, ErrorCode::failed_precondition);
  }
}

// Between two processes there is only the wall's clock: set back, it gives a reservation its whole
// time once more, and no longer; set ahead, it ends those that stand.
TEST_F(ReservationBookByHand, OutlivesNoRestartByMoreThanItsTime) {
  for (const Nanos step : {Nanos{-1h}, Nanos{-400 * 24h}}) {
    (void)reserve(8, {.expire = 60s, .on_expiry = OnExpiry::full});
    pass(50s);
    end();
    clock_.step_wall(step);
    begin();
    EXPECT_EQ(book_->size(), 1u);
    pass(50s);
    EXPECT_EQ(book_->size(), 1u);
    pass(12s);
    EXPECT_EQ(book_->size(), 0u) << "nothing stands for ever";
  }
  (void)reserve(8, {.expire = 60s, .on_expiry = OnExpiry::full});
  end();
  clock_.step_wall(24h);
  begin();
  EXPECT_EQ(book_->size(), 1u);
  pass(2s);
  EXPECT_EQ(book_->size(), 0u);
  EXPECT_EQ(billed(), (Units{8, 8, 8}));
}

TEST_F(ReservationBookByHand, GoesOnAfterARestart) {
  const std::string stands = reserve(8, kHour);
  const std::string ended = reserve(4, kHour);
  ASSERT_TRUE(book_->heartbeat(stands, 2));
  ASSERT_TRUE(settle(ended, 4));
  end();
  begin();
  EXPECT_EQ(book_->size(), 1u);
  EXPECT_TRUE(settle(ended, 4)->repeated);
  ASSERT_TRUE(settle(stands, 6));
  EXPECT_EQ(billed(), (Units{4, 6}));
  ASSERT_EQ(given_back_.size(), 1u);
  EXPECT_EQ(given_back_[0].second, 2u);
}

// Settling it as nothing was tried once; where the disk did not take that, it stood until it
// expired, and was billed in full to a caller who had been told no.
TEST_F(ReservationBookByHand, EndsWhatNobodyWasToldOfAsSoonAsTheDiskTakesIt) {
  const std::string id = reserve(8, {.expire = 5s, .on_expiry = OnExpiry::full});
  disk_.fail(ForgetfulDisk::Fault::sync, 1, ForgetfulDisk::Lasts::until_healed);
  book_->drop(id);
  pass(8s);
  EXPECT_EQ(book_->size(), 1u) << "no disk, no end";
  EXPECT_TRUE(given_back_.empty());
  disk_.heal();
  pass(3s);
  EXPECT_EQ(book_->size(), 0u);
  EXPECT_EQ(billed(), Units{});
  EXPECT_EQ(given_back_, (std::vector<std::pair<std::string, std::uint64_t>>{{id, 8}}));
}

TEST_F(ReservationBookByHand, EndsWhatNobodyWasToldOfBeforeItsProcessDoes) {
  const std::string id = reserve(8, {.expire = 60s, .on_expiry = OnExpiry::full});
  disk_.fail(ForgetfulDisk::Fault::sync, 1, ForgetfulDisk::Lasts::until_healed);
  book_->drop(id);
  turn();
  disk_.heal();
  end();
  begin();
  EXPECT_EQ(book_->size(), 0u);
  pass(90s);
  EXPECT_EQ(billed(), Units{});
}

// Whoever asked for it had left, for the disk was slow; and a journal that closes took no word of
// that: the next process found a reservation that stood, and billed it in full.
TEST_F(ReservationBookByHand, EndsWhatNobodyWaitedForAlthoughItsJournalCloses) {
  const std::string id = book_->new_id();
  auto [held, notes] = begin_reservation(id, 8, {.expire = 60s, .on_expiry = OnExpiry::full});
  bool durable = false;
  journal_->append({}, std::move(notes), [&](const Result<void>& done) {
    durable = done.has_value();
    book_->open(id, held);
    book_->drop(id);
  });
  end();
  EXPECT_TRUE(durable);
  EXPECT_EQ(given_back_, (std::vector<std::pair<std::string, std::uint64_t>>{{id, 8}}));
  begin();
  EXPECT_EQ(book_->size(), 0u);
  pass(90s);
  EXPECT_EQ(billed(), Units{});
}

// Members end the other way round than they began, and the journal began last. What is freed is
// overwritten here, so that whoever still looks at it does not find what was there.
TEST_F(ReservationBookByHand, OutlivesItsJournal) {
  (void)reserve(8, kHour);
  const std::string dropped = reserve(8, kHour);
  disk_.fail(ForgetfulDisk::Fault::sync, 1, ForgetfulDisk::Lasts::until_healed);
  book_->drop(dropped);
  turn();
  ASSERT_EQ(book_->size(), 2u) << "it is still to be ended";
  (void)journal_->close();
  ::mallopt(M_PERTURB, 0x5a);
  journal_.reset();
  ::mallopt(M_PERTURB, 0);
  book_.reset();
}

TEST_F(ReservationBookByHand, AsksAgainToGiveBackUntilTheStoreDid) {
  const std::string id = reserve(8, kHour);
  store_ = GivenBack::no;
  ASSERT_TRUE(settle(id, 3));
  pass(20min);
  EXPECT_EQ(book_->returns(), 1u);
  EXPECT_GT(given_back_.size(), 10u);
  store_ = GivenBack::yes;
  pass(2s);
  EXPECT_EQ(book_->returns(), 0u);
  EXPECT_EQ(book_->returns_lost(), 0u);
  for (const auto& [each, units] : given_back_) EXPECT_EQ(each, id) << "under one name";
}

// Longer than the store remembers whether it did.
TEST_F(ReservationBookByHand, GivesUpWhatNobodyCanTellAnyMore) {
  const std::string id = reserve(8, kHour);
  store_ = GivenBack::unknown;
  ASSERT_TRUE(settle(id, 3));
  pass(ReservationBook::kReturnMemory / 2);
  EXPECT_EQ(book_->returns(), 1u);
  pass(ReservationBook::kReturnMemory / 2);
  EXPECT_EQ(book_->returns(), 0u);
  EXPECT_EQ(book_->returns_lost(), 1u);
}

// A rule that was taken out of the policy can be given nothing: that was said of nobody.
TEST_F(ReservationBookByHand, CountsWhatNobodyCanGiveBackAnyMoreAndAsksOnce) {
  const std::string gone = reserve(8, kHour);
  const std::string other = reserve(8, kHour);
  store_ = GivenBack::in_part;
  ASSERT_TRUE(settle(gone, 3));
  EXPECT_EQ(book_->returns(), 0u);
  EXPECT_EQ(book_->returns_lost(), 1u);
  store_ = GivenBack::yes;
  ASSERT_TRUE(settle(other, 3));
  pass(20s);
  EXPECT_EQ(given_back_.size(), 2u);
  EXPECT_EQ(book_->returns_lost(), 1u);
}

TEST_F(ReservationBookByHand, HoldsAsManyAsItMay) {
  for (std::size_t i = 0; i < kMaxReservations; ++i) {
    ASSERT_TRUE(book_->has_room()) << i;
    book_->open(book_->new_id(), {});
  }
  EXPECT_FALSE(book_->has_room());
}

TEST(ReservationBook, PassesOverNotesThatAreDamaged) {
  ManualClock clock;
  ReservationBook book(clock);
  EXPECT_FALSE(book.restore({.id = "r1", .body = "no reservation"}));
  HeldReservation held;
  held.events.push_back("no event");
  EXPECT_FALSE(book.restore(ReservationBook::note_of("2", held, clock.now())));
  held.events.clear();
  held.expires = Instant::max();
  held.terms.expire = Nanos::max();
  EXPECT_TRUE(book.restore(ReservationBook::note_of("3", held, clock.now())));
  EXPECT_EQ(book.size(), 1u);
}

TEST(ReservationBook, DrawsNamesThatNobodyGuesses) {
  ManualClock clock;
  ReservationBook book(clock);
  const std::string one = book.new_id();
  EXPECT_EQ(one.size(), 32u);
  EXPECT_EQ(one.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(book.new_id(), one);
}

// What was used beyond a reservation in an outage was never counted by the limits.
TEST_F(ReservationBookByHand, TakesWhatWasSettledInAnOutageOnceTheStoreIsBack) {
  for (const GivenBack how : {GivenBack::no, GivenBack::unknown}) {
    asked_.clear();
    asked_as_.clear();
    takes_ = how;
    const std::string id = reserve(5, {.expire = 1h, .on_expiry = OnExpiry::full});
    ASSERT_TRUE(settle(id, 12));
    EXPECT_EQ(book_->returns(), 1u);
    pass(3s);
    EXPECT_GE(asked_.size(), 3u) << "it is asked again";
    EXPECT_EQ(book_->returns(), 1u);
    takes_ = GivenBack::yes;
    pass(2s);
    EXPECT_EQ(book_->returns(), 0u);
    EXPECT_EQ(asked_, Units(asked_.size(), 7));
    EXPECT_EQ(asked_as_, std::vector<std::string>(asked_.size(), id + "+0"))
        << "under one name, to be charged once";
    const std::size_t asked = asked_.size();
    pass(5s);
    EXPECT_EQ(asked_.size(), asked) << "that was all";
  }
  EXPECT_EQ(book_->returns_lost(), 0u);
  // Where nobody can tell any more whether the store did it, it is let go.
  takes_ = GivenBack::unknown;
  ASSERT_TRUE(settle(reserve(5, {.expire = 1h, .on_expiry = OnExpiry::full}), 12));
  pass(5min);
  EXPECT_EQ(book_->returns(), 0u);
  EXPECT_EQ(book_->returns_lost(), 1u);
}

// The limits were to be asked for what the first try was about, and never heard that it came to
// less.
TEST_F(ReservationBookByHand, OwesTheLimitsNoMoreThanWhatItWasSettledAsInTheEnd) {
  takes_ = GivenBack::no;
  const auto fail_first = [&](std::uint64_t first) {
    const std::string id = reserve(5, kHour);
    disk_.fail(ForgetfulDisk::Fault::sync, 1, ForgetfulDisk::Lasts::until_healed);
    EXPECT_FALSE(settle(id, first));
    disk_.heal();
    pass(1s);
    return id;
  };
  const auto taken_once_back = [&] {
    asked_.clear();
    takes_ = GivenBack::yes;
    pass(2s);
    takes_ = GivenBack::no;
    EXPECT_EQ(book_->returns(), 0u);
    return std::exchange(asked_, {});
  };
  // Seven were asked for, and three were used.
  ASSERT_TRUE(settle(fail_first(12), 8));
  EXPECT_EQ(book_->returns(), 1u);
  EXPECT_EQ(taken_once_back(), Units{3});
  // None were: nothing is owed any more, and nothing that was never taken goes back.
  ASSERT_TRUE(settle(fail_first(12), 5));
  EXPECT_EQ(book_->returns(), 0u);
  EXPECT_EQ(taken_once_back(), Units{});
  EXPECT_TRUE(given_back_.empty());
  // What the second try asked for beyond the first is owed beside it.
  ASSERT_TRUE(settle(fail_first(12), 14));
  EXPECT_EQ(taken_once_back(), (Units{7, 2}));
  EXPECT_EQ(billed(), (Units{8, 5, 14}));
  EXPECT_EQ(book_->returns_lost(), 0u);
  // What the store may have taken is asked for as it was, or not at all: it would take other units
  // under the same name for the same.
  takes_ = GivenBack::unknown;
  const std::string put = fail_first(12);
  ASSERT_TRUE(settle(put, 8));
  EXPECT_EQ(book_->returns(), 0u);
  EXPECT_EQ(book_->returns_lost(), 1u);
  EXPECT_EQ(taken_once_back(), Units{});
}

}  // namespace
}  // namespace weir::guard
