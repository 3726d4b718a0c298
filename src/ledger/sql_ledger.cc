#include "ledger/sql_ledger.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ledger/postgres_session.h"
#include "ledger/sqlite_session.h"
#include "policy/store_url.h"
#include "weir/limits.h"

namespace weir::ledger {
namespace {

using Outcome = Applied::Outcome;

// Each brings the tables from the format of its place to the next. Those that were released never
// change.
constexpr std::array kSqliteMigrations = {
    "CREATE TABLE ledger(id INTEGER PRIMARY KEY, format INTEGER NOT NULL,"
    "  keys_forgotten_before INTEGER NOT NULL, forgotten_events INTEGER NOT NULL,"
    "  forgotten_units INTEGER NOT NULL);"
    "CREATE TABLE journals(name INTEGER PRIMARY KEY, last INTEGER NOT NULL,"
    "  events INTEGER NOT NULL, units INTEGER NOT NULL, repeated INTEGER NOT NULL,"
    "  rejected INTEGER NOT NULL);"
    "CREATE TABLE lines(tenant BLOB NOT NULL, route TEXT NOT NULL, rule TEXT NOT NULL,"
    "  window_start INTEGER NOT NULL, window_ns INTEGER NOT NULL, events INTEGER NOT NULL,"
    "  units INTEGER NOT NULL, overspent INTEGER NOT NULL, forgiven INTEGER NOT NULL,"
    "  PRIMARY KEY(tenant, route, rule, window_start, window_ns)) WITHOUT ROWID;"
    "CREATE TABLE entries(journal INTEGER NOT NULL, number INTEGER NOT NULL, id BLOB NOT NULL,"
    "  at INTEGER NOT NULL, tenant BLOB NOT NULL, route TEXT NOT NULL, rule TEXT NOT NULL,"
    "  window_start INTEGER NOT NULL, units INTEGER NOT NULL, overspent INTEGER NOT NULL,"
    "  billed INTEGER NOT NULL, settled_at INTEGER NOT NULL, PRIMARY KEY(journal, number)) WITHOUT "
    "ROWID;"
    "CREATE TABLE rejections(journal INTEGER NOT NULL, number INTEGER NOT NULL,"
    "  reason TEXT NOT NULL, PRIMARY KEY(journal, number)) WITHOUT ROWID;"
    "CREATE TABLE keys(tenant BLOB NOT NULL, route TEXT NOT NULL, rule TEXT NOT NULL,"
    "  key BLOB NOT NULL, units INTEGER NOT NULL, at INTEGER NOT NULL,"
    "  settled_at INTEGER NOT NULL,"
    "  PRIMARY KEY(tenant, route, rule, key)) WITHOUT ROWID;"
    "CREATE INDEX keys_by_age ON keys(settled_at);",
};

constexpr std::array kPostgresMigrations = {
    "CREATE TABLE ledger(id BIGINT PRIMARY KEY, format BIGINT NOT NULL,"
    "  keys_forgotten_before BIGINT NOT NULL, forgotten_events BIGINT NOT NULL,"
    "  forgotten_units BIGINT NOT NULL);"
    "CREATE TABLE journals(name BIGINT PRIMARY KEY, last BIGINT NOT NULL,"
    "  events BIGINT NOT NULL, units BIGINT NOT NULL, repeated BIGINT NOT NULL,"
    "  rejected BIGINT NOT NULL);"
    "CREATE TABLE lines(tenant BYTEA NOT NULL, route TEXT NOT NULL, rule TEXT NOT NULL,"
    "  window_start BIGINT NOT NULL, window_ns BIGINT NOT NULL, events BIGINT NOT NULL,"
    "  units BIGINT NOT NULL, overspent BIGINT NOT NULL, forgiven BIGINT NOT NULL,"
    "  PRIMARY KEY(tenant, route, rule, window_start, window_ns));"
    "CREATE TABLE entries(journal BIGINT NOT NULL, number BIGINT NOT NULL, id BYTEA NOT NULL,"
    "  at BIGINT NOT NULL, tenant BYTEA NOT NULL, route TEXT NOT NULL, rule TEXT NOT NULL,"
    "  window_start BIGINT NOT NULL, units BIGINT NOT NULL, overspent BIGINT NOT NULL,"
    "  billed BIGINT NOT NULL, settled_at BIGINT NOT NULL, PRIMARY KEY(journal, number));"
    "CREATE TABLE rejections(journal BIGINT NOT NULL, number BIGINT NOT NULL,"
    "  reason TEXT NOT NULL, PRIMARY KEY(journal, number));"
    "CREATE TABLE keys(tenant BYTEA NOT NULL, route TEXT NOT NULL, rule TEXT NOT NULL,"
    "  key BYTEA NOT NULL, units BIGINT NOT NULL, at BIGINT NOT NULL,"
    "  settled_at BIGINT NOT NULL,"
    "  PRIMARY KEY(tenant, route, rule, key));"
    "CREATE INDEX keys_by_age ON keys(settled_at);",
};
static_assert(kSqliteMigrations.size() == kPostgresMigrations.size());
constexpr auto kFormat = static_cast<std::int64_t>(kSqliteMigrations.size());

constexpr std::string_view kSqlite = "sqlite:";

constexpr std::int64_t kMigrationLock = 0x77656972;  // "weir"

std::int64_t nanos(Instant instant) {
  return instant.time_since_epoch().count();
}
std::int64_t number(std::uint64_t value) {
  return static_cast<std::int64_t>(value);
}

std::string id_bytes(const EventId& id) {
  std::string out;
  for (const std::uint64_t half : {id.hi, id.lo}) {
    for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<char>(half >> shift));
  }
  return out;
}

Applied rejected(std::string reason) {
  return {Outcome::rejected, std::move(reason)};
}

// What is told, where it can be a call's.
Result<UsageEvent> acceptable(const StoredEvent& stored) {
  auto event = stored.read();
  if (event && (event->units > kMaxUnits || event->overspent > event->units)) {
    return Error{ErrorCode::invalid_argument, "usage event: of " + std::to_string(event->units) +
                                                  " units, " + std::to_string(event->overspent) +
                                                  " overspent: no call has so many"};
  }
  return event;
}

}  // namespace

Result<void> check_ledger_url(const std::string& url) {
  const bool sqlite = url.starts_with(kSqlite) && url.size() > kSqlite.size();
  if (sqlite || url.starts_with("postgresql://") || url.starts_with("postgres://")) return {};
  return Error{ErrorCode::invalid_argument,
               "ledger: '" + policy::redacted(url) +
                   "' names no ledger; allowed: sqlite:PATH, postgresql://…"};
}

Result<std::unique_ptr<Ledger>> open_ledger(const std::string& url, LedgerOptions options) {
  if (auto fits = check_ledger_url(url); !fits) return fits.error();
  const bool sqlite = url.starts_with(kSqlite);
  auto session = sqlite ? open_sqlite_session(url.substr(kSqlite.size()))
                        : open_postgres_session(url, options);
  if (!session) return session.error();
  auto ledger = SqlLedger::open(std::move(*session), options);
  if (!ledger) return ledger.error();
  return std::unique_ptr<Ledger>(std::move(*ledger));
}

Result<std::unique_ptr<Ledger>> look_into_ledger(const std::string& url) {
  if (auto fits = check_ledger_url(url); !fits) return fits.error();
  const bool sqlite = url.starts_with(kSqlite);
  auto session = sqlite ? look_into_sqlite(url.substr(kSqlite.size())) : open_postgres_session(url);
  if (!session) return session.error();
  auto ledger = SqlLedger::look(std::move(*session));
  if (!ledger) return ledger.error();
  return std::unique_ptr<Ledger>(std::move(*ledger));
}

Result<std::unique_ptr<SqlLedger>> SqlLedger::open(std::unique_ptr<SqlSession> session,
                                                   LedgerOptions options) {
  std::unique_ptr<SqlLedger> ledger(new SqlLedger(std::move(session), options));
  if (auto begun = ledger->session_->begin(); !begun) return begun.error();
  auto done = ledger->migrate();
  if (done) done = ledger->session_->commit();
  if (!done) {
    ledger->session_->rollback();
    return done.error();
  }
  return ledger;
}

Result<std::unique_ptr<SqlLedger>> SqlLedger::look(std::unique_ptr<SqlSession> session) {
  std::unique_ptr<SqlLedger> ledger(new SqlLedger(std::move(session), {}));
  if (ledger->session_->dialect() == SqlSession::Dialect::postgresql) {
    auto set = ledger->session_->script("SET default_transaction_read_only = on");
    if (!set) return set.error();
  }
  const auto format = ledger->format();
  if (!format) return format.error();
  if (*format == 0)
    return Error{ErrorCode::not_found, "ledger: there is none yet: nothing was settled yet"};
  if (*format != kFormat) {
    return Error{ErrorCode::failed_precondition,
                 "ledger: of format " + std::to_string(*format) + "; this release reads format " +
                     std::to_string(kFormat) + ", and `weir serve` brings an older one to it"};
  }
  return ledger;
}

Result<std::int64_t> SqlLedger::format() {
  const bool sqlite = session_->dialect() == SqlSession::Dialect::sqlite;
  bool there = false;
  const char* look = sqlite ? "SELECT 1 FROM sqlite_schema WHERE name = 'ledger'"
                            : "SELECT 1 FROM pg_catalog.pg_tables WHERE tablename = 'ledger' AND "
                              "schemaname = current_schema()";
  if (auto done = session_->run(look, {}, [&](const SqlRow&) { there = true; }); !done)
    return done.error();
  std::int64_t format = 0;
  if (!there) return format;
  auto done = session_->run("SELECT format FROM ledger", {},
                            [&](const SqlRow& row) { format = row.number(0); });
  if (!done) return done.error();
  return format;
}

Result<void> SqlLedger::migrate() {
  const bool sqlite = session_->dialect() == SqlSession::Dialect::sqlite;
  // Workers that start together make it once. The number is this ledger's, among a database's
  // locks.
  if (!sqlite) {
    auto locked = session_->run("SELECT 1 FROM pg_advisory_xact_lock($1)", {kMigrationLock});
    if (!locked) return locked;
  }
  const auto found = format();
  if (!found) return found.error();
  const std::int64_t format = *found;
  if (format > kFormat) {
    return Error{ErrorCode::failed_precondition, "ledger: of format " + std::to_string(format) +
                                                     "; this release knows formats up to " +
                                                     std::to_string(kFormat)};
  }
  for (std::int64_t from = format; from < kFormat; ++from) {
    const auto at = static_cast<std::size_t>(from);
    if (auto done = session_->script(sqlite ? kSqliteMigrations[at] : kPostgresMigrations[at]);
        !done)
      return done;
  }
  if (format == 0) return session_->run("INSERT INTO ledger VALUES(1, $1, 0, 0, 0)", {kFormat});
  if (format == kFormat) return {};
  return session_->run("UPDATE ledger SET format = $1", {kFormat});
}

Result<JournalBalance> SqlLedger::journal(std::uint64_t name) {
  JournalBalance balance;
  auto done = session_->run(
      "SELECT last, events, units, repeated, rejected FROM journals WHERE name = $1",
      {number(name)}, [&](const SqlRow& row) {
        const auto column = [&row](int i) { return static_cast<std::uint64_t>(row.number(i)); };
        balance = {column(0), column(1), column(2), column(3), column(4)};
      });
  if (!done) return done.error();
  return balance;
}

Result<std::vector<Applied>> SqlLedger::apply(std::uint64_t journal,
                                              std::span<const StoredEvent> events, Instant now) {
  std::vector<Applied> out;
  out.reserve(events.size());
  if (auto begun = session_->begin(); !begun) return begun.error();
  auto done = apply_all(journal, events, now, out);
  if (done) done = session_->commit();
  if (!done) {
    session_->rollback();
    return done.error();
  }
  return out;
}

Result<void> SqlLedger::apply_all(std::uint64_t name, std::span<const StoredEvent> events,
                                  Instant now, std::vector<Applied>& out) {
  auto balance = journal(name);
  if (!balance) return balance.error();
  Batch batch{
      .journal = number(name), .now = nanos(now), .balance = *balance, .lines = {}, .claims = {}};
  auto mark = session_->run("SELECT keys_forgotten_before FROM ledger", {}, [&](const SqlRow& row) {
    batch.keys_forgotten_before = row.number(0);
  });
  if (!mark) return mark;
  if (auto claimed = claim_keys(batch, events); !claimed) return claimed;
  for (const StoredEvent& stored : events) {
    auto applied =
        stored.number <= balance->last ? seen_before(batch, stored) : apply_one(batch, stored);
    if (!applied) return applied.error();
    if (stored.number > balance->last) {
      batch.balance.last = stored.number;
      if (applied->outcome == Outcome::rejected) {
        ++batch.balance.rejected;
        if (auto done = write_rejection(batch.journal, stored.number, applied->reason); !done)
          return done;
      }
    }
    out.push_back(std::move(*applied));
  }
  if (auto done = write(batch); !done) return done;
  return forget(batch.journal, now);
}

// An event whose number is behind us: known, or another one under the same number, as after a
// journal was brought back from a backup.
Result<Applied> SqlLedger::seen_before(const Batch& batch, const StoredEvent& stored) {
  std::optional<std::string> reason;
  auto done = session_->run("SELECT reason FROM rejections WHERE journal = $1 AND number = $2",
                            {batch.journal, number(stored.number)},
                            [&](const SqlRow& row) { reason = std::string(row.bytes(0)); });
  if (!done) return done.error();
  if (reason) return rejected(*reason);
  const auto event = stored.read();
  bool same = false;
  done = session_->run("SELECT id FROM entries WHERE journal = $1 AND number = $2",
                       {batch.journal, number(stored.number)}, [&](const SqlRow& row) {
                         same = event && row.bytes(0) == id_bytes(event->id);
                       });
  if (!done) return done.error();
  if (same) return Applied{Outcome::already, {}};
  return rejected("the ledger knows another event, or none any more, under this number");
}

Result<Applied> SqlLedger::apply_one(Batch& batch, const StoredEvent& stored) {
  const auto event = acceptable(stored);
  if (!event) return rejected(event.error().message);
  Applied applied;
  if (!event->idempotency_key.empty()) {
    auto known = by_key(batch, stored.number, *event);
    if (known && known->outcome == Outcome::rejected) return *known;
    if (known) applied = *known;
  }
  const bool repeated = applied.outcome == Outcome::repeated;
  const std::int64_t forgiven =
      event->mode == policy::OverspendMode::forgive ? number(event->overspent) : 0;
  const std::string id = id_bytes(event->id);
  auto done = session_->run_by_the_way(
      "INSERT INTO entries VALUES($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
      {batch.journal, number(stored.number), std::string_view(id), nanos(event->at), event->tenant,
       SqlText{event->route}, SqlText{event->rule}, nanos(event->window_start),
       number(event->units), number(event->overspent),
       repeated ? 0 : number(event->units) - forgiven, batch.now});
  if (!done) return done.error();
  ++batch.balance.events;
  if (repeated) {
    ++batch.balance.repeated;
    return applied;
  }
  batch.balance.units += event->units;
  Added& line =
      batch.lines[{std::string(event->tenant), std::string(event->route), std::string(event->rule),
                   nanos(event->window_start), event->window.count()}];
  ++line.events;
  line.units += number(event->units);
  line.overspent += number(event->overspent);
  line.forgiven += forgiven;
  return applied;
}

// It may repeat what came up to so long before it.
bool SqlLedger::too_old(const Batch& batch, const UsageEvent& event) const {
  return nanos(event.at - options_.retry_window) < batch.keys_forgotten_before;
}

Result<void> SqlLedger::claim_keys(Batch& batch, std::span<const StoredEvent> events) {
  std::vector<std::pair<UsageEvent, Claim*>> claims;
  for (const StoredEvent& stored : events) {
    if (stored.number <= batch.balance.last) continue;
    const auto event = acceptable(stored);
    if (!event || event->idempotency_key.empty() || too_old(batch, *event)) continue;
    Claim& claim = batch.claims[stored.number];
    auto done = session_->run_by_the_way(
        "INSERT INTO keys VALUES($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING RETURNING 1",
        {event->tenant, SqlText{event->route}, SqlText{event->rule}, event->idempotency_key,
         number(event->units), nanos(event->at), batch.now},
        [&claim](const SqlRow&) { claim.fresh = true; });
    if (!done) return done;
    claims.emplace_back(*event, &claim);
  }
  if (auto heard = session_->hear(); !heard) return heard;
  for (const auto& [event, claim] : claims) {
    if (claim->fresh) continue;
    auto done = session_->run_by_the_way(
        "SELECT units FROM keys WHERE tenant = $1 AND route = $2 AND rule = $3 AND key = $4",
        {event.tenant, SqlText{event.route}, SqlText{event.rule}, event.idempotency_key},
        [known = claim](const SqlRow& row) { known->units = row.number(0); });
    if (!done) return done;
  }
  return session_->hear();
}

std::optional<Applied> SqlLedger::by_key(const Batch& batch, EventNumber number,
                                         const UsageEvent& event) const {
  if (too_old(batch, event)) {
    return rejected(
        "older than idempotency keys are remembered: nobody knows whether it was billed");
  }
  const Claim& claim = batch.claims.at(number);
  if (claim.fresh) return std::nullopt;
  const auto units = static_cast<std::uint64_t>(claim.units);
  if (units == event.units) return Applied{Outcome::repeated, {}};
  return rejected("its idempotency key was used before, for " + std::to_string(units) +
                  " units instead of " + std::to_string(event.units));
}

Result<void> SqlLedger::write(const Batch& batch) {
  for (const auto& [key, added] : batch.lines) {
    const auto& [tenant, route, rule, start, window] = key;
    auto done = session_->run_by_the_way(
        "INSERT INTO lines VALUES($1, $2, $3, $4, $5, $6, $7, $8, $9)"
        "  ON CONFLICT(tenant, route, rule, window_start, window_ns) DO UPDATE SET"
        "  events = lines.events + excluded.events, units = lines.units + excluded.units,"
        "  overspent = lines.overspent + excluded.overspent,"
        "  forgiven = lines.forgiven + excluded.forgiven",
        {std::string_view(tenant), SqlText{route}, SqlText{rule}, start, window, added.events,
         added.units, added.overspent, added.forgiven});
    if (!done) return done;
  }
  const JournalBalance& balance = batch.balance;
  return session_->run_by_the_way(
      "INSERT INTO journals VALUES($1, $2, $3, $4, $5, $6) ON CONFLICT(name) DO UPDATE SET"
      "  last = excluded.last, events = excluded.events, units = excluded.units,"
      "  repeated = excluded.repeated, rejected = excluded.rejected",
      {batch.journal, number(balance.last), number(balance.events), number(balance.units),
       number(balance.repeated), number(balance.rejected)});
}

Result<void> SqlLedger::write_rejection(std::int64_t journal, EventNumber event,
                                        const std::string& reason) {
  return session_->run_by_the_way("INSERT INTO rejections VALUES($1, $2, $3)",
                                  {journal, number(event), SqlText{reason}});
}

// A few of the oldest at a time, so that no batch pays for all.
Result<void> SqlLedger::forget(std::int64_t journal, Instant now) {
  std::int64_t newest = 0;
  auto done = session_->run(
      "DELETE FROM keys WHERE (tenant, route, rule, key) IN"
      "  (SELECT tenant, route, rule, key FROM keys WHERE settled_at < $1"
      "    ORDER BY settled_at LIMIT 1000)"
      "  RETURNING at, settled_at",
      {nanos(now - options_.key_memory)}, [&](const SqlRow& row) {
        // A clock that ran ahead must not make all that is to come look old.
        newest = std::max(newest, std::min(row.number(0), row.number(1)));
      });
  if (!done) return done;
  if (newest > 0) {
    done = session_->run(
        "UPDATE ledger SET keys_forgotten_before = $1 WHERE keys_forgotten_before < $2",
        {newest + 1, newest + 1});
    if (!done) return done;
  }
  std::int64_t events = 0;
  std::int64_t units = 0;
  done = session_->run(
      "DELETE FROM entries WHERE journal = $1 AND number IN"
      "  (SELECT number FROM entries WHERE journal = $2 ORDER BY number LIMIT 1000)"
      "  AND settled_at < $3 RETURNING billed",
      {journal, journal, nanos(now - options_.entry_memory)}, [&](const SqlRow& row) {
        ++events;
        units += row.number(0);
      });
  if (!done || events == 0) return done;
  return session_->run(
      "UPDATE ledger SET forgotten_events = forgotten_events + $1,"
      "  forgotten_units = forgotten_units + $2",
      {events, units});
}

Result<void> SqlLedger::reject(std::uint64_t journal, EventNumber event,
                               const std::string& reason) {
  if (auto begun = session_->begin(); !begun) return begun;
  Result<void> done;
  auto balance = this->journal(journal);
  if (!balance) done = balance.error();
  if (done && event > balance->last) {
    Batch batch{.journal = number(journal), .balance = *balance, .lines = {}, .claims = {}};
    batch.balance.rejected += event - batch.balance.last;
    batch.balance.last = event;
    done = write_rejection(batch.journal, event, reason);
    if (done) done = write(batch);
  }
  if (done) done = session_->commit();
  if (!done) session_->rollback();
  return done;
}

namespace {

// So many lines at once: a book may be larger than memory, and than what a server says in time.
constexpr std::size_t kPage = 10'000;

LedgerLine line_in(const SqlRow& row) {
  const auto column = [&row](int i) { return static_cast<std::uint64_t>(row.number(i)); };
  return {.tenant = std::string(row.bytes(0)),
          .route = std::string(row.bytes(1)),
          .rule = std::string(row.bytes(2)),
          .window_start = Instant{Nanos(row.number(3))},
          .window = Nanos(row.number(4)),
          .events = column(5),
          .units = column(6),
          .overspent = column(7),
          .forgiven = column(8)};
}

}  // namespace

Result<void> SqlLedger::lines(const std::function<bool(const LedgerLine&)>& each) {
  std::vector<LedgerLine> page;
  const auto take = [&page](const SqlRow& row) { page.push_back(line_in(row)); };
  auto done = session_->run(
      "SELECT tenant, route, rule, window_start, window_ns, events, units, overspent, forgiven"
      "  FROM lines ORDER BY tenant, route, rule, window_start, window_ns LIMIT $1",
      {static_cast<std::int64_t>(kPage)}, take);
  while (done && !page.empty()) {
    for (const LedgerLine& line : page) {
      if (!each(line)) return {};
    }
    if (page.size() < kPage) return {};
    const LedgerLine last = std::move(page.back());
    page.clear();
    done = session_->run(
        "SELECT tenant, route, rule, window_start, window_ns, events, units, overspent, forgiven"
        "  FROM lines WHERE (tenant, route, rule, window_start, window_ns) > ($1, $2, $3, $4, $5)"
        "  ORDER BY tenant, route, rule, window_start, window_ns LIMIT $6",
        {std::string_view(last.tenant), SqlText{last.route}, SqlText{last.rule},
         nanos(last.window_start), std::int64_t{last.window.count()},
         static_cast<std::int64_t>(kPage)},
        take);
  }
  return done;
}

Result<std::uint64_t> SqlLedger::count_lines() {
  std::uint64_t count = 0;
  auto done = session_->run("SELECT count(*) FROM lines", {}, [&](const SqlRow& row) {
    count = static_cast<std::uint64_t>(row.number(0));
  });
  if (!done) return done.error();
  return count;
}

Result<void> SqlLedger::verify() {
  std::string fault;
  auto done = session_->run(
      "SELECT CAST((SELECT coalesce(sum(events), 0) FROM lines) AS BIGINT),"
      "  CAST((SELECT coalesce(sum(events - repeated), 0) FROM journals) AS BIGINT),"
      "  CAST((SELECT coalesce(sum(units), 0) FROM lines) AS BIGINT),"
      "  CAST((SELECT coalesce(sum(units), 0) FROM journals) AS BIGINT),"
      "  CAST((SELECT coalesce(sum(units - forgiven), 0) FROM lines) AS BIGINT),"
      "  CAST((SELECT coalesce(sum(billed), 0) FROM entries) AS BIGINT) + forgotten_units,"
      "  CAST((SELECT count(*) FROM entries) AS BIGINT) + forgotten_events,"
      "  CAST((SELECT coalesce(sum(events), 0) FROM journals) AS BIGINT)"
      "  FROM ledger",
      {}, [&](const SqlRow& row) {
        const auto differ = [&](int a, const char* what_a, int b, const char* what_b) {
          if (!fault.empty() || row.number(a) == row.number(b)) return;
          fault = std::to_string(row.number(a)) + " " + what_a + " and " +
                  std::to_string(row.number(b)) + " " + what_b;
        };
        differ(0, "events in the lines", 1, "billed of the journals");
        differ(2, "units in the lines", 3, "billed of the journals");
        differ(4, "units billed in the lines", 5, "in the single entries");
        differ(6, "single entries", 7, "events of the journals");
      });
  if (!done) return done;
  if (!fault.empty()) return Error{ErrorCode::internal, "ledger: does not balance: " + fault};
  return {};
}

}  // namespace weir::ledger
