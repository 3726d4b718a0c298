#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ledger/journal_reader.h"
#include "ledger/ledger.h"
#include "ledger/settler.h"
#include "weir/clock.h"

// How `weir journal` says what it found, for people and, on one line each, as JSON. Bytes of a
// tenant that are no printable ASCII stand as \xNN.
namespace weir::cli {

struct JournalOverview {
  std::string folder;
  ledger::JournalFile::Counts counts;
  std::uint64_t file_bytes = 0;
  std::uint64_t reservations = 0;  // that stand
  Instant now{};
  std::optional<ledger::JournalBalance> balance;
  std::string ledger_fault;  // where there is no balance
};
std::string text_of(const JournalOverview& overview);
std::string json_of(const JournalOverview& overview);

std::string text_of(const ledger::StoredEvent& event);
std::string json_of(const ledger::StoredEvent& event);
std::string text_of(const ledger::QuarantinedEvent& event);
std::string json_of(const ledger::QuarantinedEvent& event);

// Whether what was recorded is what was settled, put aside, or waits.
struct JournalAudit {
  std::string folder;
  ledger::JournalFile::Counts counts;
  ledger::JournalBalance balance;
  std::uint64_t lines = 0;
  std::uint64_t units = 0;
  std::uint64_t overspent = 0;
  std::uint64_t forgiven = 0;
  std::vector<std::string> faults;

  // Holds the journal's counts and the ledger's balance together.
  void judge();
  void add(const ledger::LedgerLine& line);
};
std::string text_of(const JournalAudit& audit);
std::string json_of(const JournalAudit& audit);

std::string csv_heading();
std::string csv_of(const ledger::LedgerLine& line);
std::string json_of(const ledger::LedgerLine& line);

struct JournalReplay {
  ledger::SettlerStatus settled;
  std::uint64_t ended = 0;  // reservations whose time was over
  std::uint64_t stand = 0;  // and those whose time is not
};
std::string text_of(const JournalReplay& replay);
std::string json_of(const JournalReplay& replay);

}  // namespace weir::cli
