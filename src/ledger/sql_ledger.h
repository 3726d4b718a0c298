#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "ledger/ledger.h"
#include "ledger/sql.h"

namespace weir::ledger {

// A ledger in a database. docs/internals/journal.md has its tables.
class SqlLedger final : public Ledger {
 public:
  // Makes the tables, or brings them to this release's format.
  static Result<std::unique_ptr<SqlLedger>> open(std::unique_ptr<SqlSession> session,
                                                 LedgerOptions options);
  // For those who only read: nothing is made or brought to another format.
  //
  // Errors:      not_found: the database has no ledger.
  static Result<std::unique_ptr<SqlLedger>> look(std::unique_ptr<SqlSession> session);

  Result<JournalBalance> journal(std::uint64_t name) override;
  Result<std::vector<Applied>> apply(std::uint64_t journal, std::span<const StoredEvent> events,
                                     Instant now) override;
  Result<void> reject(std::uint64_t journal, EventNumber number,
                      const std::string& reason) override;
  Result<void> lines(const std::function<bool(const LedgerLine&)>& each) override;
  Result<std::uint64_t> count_lines() override;
  Result<void> verify() override;

 private:
  // Lines that one transaction adds to, in one order for everybody: no two workers wait for each
  // other.
  using LineKey = std::tuple<std::string, std::string, std::string, std::int64_t, std::int64_t>;
  struct Added {
    std::int64_t events = 0, units = 0, overspent = 0, forgiven = 0;
  };
  // What became of an event's idempotency key: it is new, or came with so many units before.
  struct Claim {
    bool fresh = false;
    std::int64_t units = 0;
  };
  struct Batch {
    std::int64_t journal = 0;
    std::int64_t now = 0;
    JournalBalance balance;
    std::int64_t keys_forgotten_before = 0;
    std::map<LineKey, Added> lines;
    std::map<EventNumber, Claim> claims;  // of the events with an idempotency key
  };

  SqlLedger(std::unique_ptr<SqlSession> session, LedgerOptions options)
      : session_(std::move(session)), options_(options) {}

  Result<void> migrate();
  // 0: there is no ledger.
  Result<std::int64_t> format();
  Result<void> apply_all(std::uint64_t journal, std::span<const StoredEvent> events, Instant now,
                         std::vector<Applied>& out);
  Result<Applied> apply_one(Batch& batch, const StoredEvent& stored);
  Result<Applied> seen_before(const Batch& batch, const StoredEvent& stored);
  // Whether it is older than the keys that are remembered.
  bool too_old(const Batch& batch, const UsageEvent& event) const;
  // All of a batch together: each alone would be waited for.
  Result<void> claim_keys(Batch& batch, std::span<const StoredEvent> events);
  // Empty: the key is new. Otherwise what it makes of the event.
  std::optional<Applied> by_key(const Batch& batch, EventNumber number,
                                const UsageEvent& event) const;
  Result<void> write(const Batch& batch);
  Result<void> write_rejection(std::int64_t journal, EventNumber number, const std::string& reason);
  Result<void> forget(std::int64_t journal, Instant now);

  std::unique_ptr<SqlSession> session_;
  LedgerOptions options_;
};

}  // namespace weir::ledger
