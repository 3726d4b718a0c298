#include "sim/sim_ledger.h"

#include <utility>

#include "ledger/sql_ledger.h"
#include "ledger/sqlite.h"
#include "ledger/sqlite_session.h"
#include "ledger/usage_event.h"
#include "sim/fleet.h"

namespace weir::sim {

using ledger::Applied;
using ledger::JournalBalance;
using ledger::StoredEvent;

namespace {

constexpr const char* kPath = "ledger.db";

std::uint64_t half_of(std::string_view id, std::size_t at) {
  std::uint64_t half = 0;
  for (std::size_t i = 0; i < 8 && at + i < id.size(); ++i)
    half = half << 8 | static_cast<unsigned char>(id[at + i]);
  return half;
}

// The canary's: the same event, of a request that did not name itself.
StoredEvent without_key(const StoredEvent& stored) {
  auto event = stored.read();
  if (!event || event->idempotency_key.empty()) return stored;
  event->idempotency_key = {};
  StoredEvent out{.number = stored.number, .body = {}};
  (void)ledger::encode(*event, out.body);
  return out;
}

Error away(const char* why) {
  return Error{ErrorCode::unavailable, std::string("ledger: ") + why};
}

}  // namespace

// What a settler holds: the ledger behind it may come and go.
class SimLedger::Door final : public ledger::Ledger {
 public:
  explicit Door(SimLedger& ledger) : ledger_(ledger) {}

  Result<JournalBalance> journal(std::uint64_t name) override { return ledger_.balance(name); }
  Result<std::vector<Applied>> apply(std::uint64_t journal, std::span<const StoredEvent> events,
                                     Instant now) override {
    return ledger_.apply(journal, events, now);
  }
  Result<void> reject(std::uint64_t journal, ledger::EventNumber number,
                      const std::string& reason) override {
    return ledger_.use([&](Real& real) { return real.reject(journal, number, reason); });
  }
  Result<void> lines(const std::function<bool(const ledger::LedgerLine&)>& each) override {
    return ledger_.use([&](Real& real) { return real.lines(each); });
  }
  Result<void> verify() override {
    return ledger_.use([](Real& real) { return real.verify(); });
  }

 private:
  SimLedger& ledger_;
};

Result<std::unique_ptr<ledger::Ledger>> SimLedger::open() {
  if (away_) return away("it is away");
  if (auto opened = real(); !opened) return opened.error();
  ++sessions_;
  return std::unique_ptr<ledger::Ledger>(std::make_unique<Door>(*this));
}

void SimLedger::cut_power_at(std::uint64_t nth) {
  disk_.cut_power_at(disk_.operations() + nth);
}

Result<SimLedger::Real*> SimLedger::real() {
  if (disk_.power_is_cut()) {
    real_.reset();
    disk_.restart(testing::ForgetfulDisk::Unsynced::drawn, ++restarts_);
  }
  if (real_) return real_.get();
  auto session = ledger::open_sqlite_session(kPath, disk_.name());
  if (!session) return session.error();
  auto opened = ledger::SqlLedger::open(std::move(*session), {});
  if (!opened) return opened.error();
  real_ = std::move(*opened);
  return real_.get();
}

template <class Do>
auto SimLedger::use(Do what) -> decltype(what(std::declval<Real&>())) {
  if (away_) return away("it is away");
  auto opened = real();
  if (!opened) return opened.error();
  auto done = what(**opened);
  if (!done) return done;
  if (words_to_lose_ > 0) {
    --words_to_lose_;
    return away("the word of it was lost");
  }
  return done;
}

Result<JournalBalance> SimLedger::balance(std::uint64_t journal) {
  auto balance = use([&](Real& real) { return real.journal(journal); });
  if (balance && canary_ == Canary::ledger_forgets) balance->last = forgotten_[journal];
  return balance;
}

Result<std::vector<Applied>> SimLedger::apply(std::uint64_t journal,
                                              std::span<const StoredEvent> events, Instant now) {
  ++applied_;
  if (canary_ == Canary::ledger_swallows && applied_ % 5 == 0)
    return std::vector<Applied>(events.size());
  // One that keeps the effect and forgets the mark takes what it is told twice for news.
  const bool forgets = canary_ == Canary::ledger_forgets;
  const std::uint64_t name = forgets ? journal + 1'000 * sessions_ : journal;
  std::vector<StoredEvent> told(events.begin(), events.end());
  if (canary_ == Canary::names_dropped) {
    for (StoredEvent& stored : told) stored = without_key(stored);
  }
  auto applied = use([&](Real& real) { return real.apply(name, told, now); });
  if (applied && forgets) forgotten_[journal] = events.back().number;
  return applied;
}

Result<std::vector<SimLedger::Entry>> SimLedger::entries() {
  if (auto opened = real(); !opened) return opened.error();
  auto db = ledger::Database::open({.path = kPath, .vfs = disk_.name()});
  if (!db) return db.error();
  auto rows = db->prepare(
      "SELECT id, tenant, route, rule, at, window_start, units, overspent, billed FROM entries"
      "  ORDER BY id");
  if (!rows) return rows.error();
  std::vector<Entry> found;
  for (;;) {
    const auto row = rows->step();
    if (!row) return row.error();
    if (!*row) return found;
    const auto number = [&](int at) { return static_cast<std::uint64_t>(rows->number(at)); };
    found.push_back({.process = half_of(rows->bytes(0), 0),
                     .count = half_of(rows->bytes(0), 8),
                     .tenant = std::string(rows->bytes(1)),
                     .route = std::string(rows->bytes(2)),
                     .rule = std::string(rows->bytes(3)),
                     .at = Instant{Nanos(rows->number(4))},
                     .window_start = Instant{Nanos(rows->number(5))},
                     .units = number(6),
                     .overspent = number(7),
                     .billed = number(8)});
  }
}

Result<std::vector<SimLedger::Key>> SimLedger::keys() {
  if (auto opened = real(); !opened) return opened.error();
  auto db = ledger::Database::open({.path = kPath, .vfs = disk_.name()});
  if (!db) return db.error();
  auto rows = db->prepare("SELECT tenant, route, key, at, units FROM keys ORDER BY key");
  if (!rows) return rows.error();
  std::vector<Key> found;
  for (;;) {
    const auto row = rows->step();
    if (!row) return row.error();
    if (!*row) return found;
    found.push_back({.tenant = std::string(rows->bytes(0)),
                     .route = std::string(rows->bytes(1)),
                     .key = std::string(rows->bytes(2)),
                     .at = Instant{Nanos(rows->number(3))},
                     .units = static_cast<std::uint64_t>(rows->number(4))});
  }
}

Result<std::uint64_t> SimLedger::units() {
  auto opened = real();
  if (!opened) return opened.error();
  if (auto balanced = (*opened)->verify(); !balanced) return balanced.error();
  std::uint64_t sum = 0;
  auto read = (*opened)->lines([&](const ledger::LedgerLine& line) {
    sum += line.units;
    return true;
  });
  if (!read) return read.error();
  return sum;
}

}  // namespace weir::sim
